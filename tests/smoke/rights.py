"""What the accounts of a stack may do, as checks write it down."""

from dataclasses import dataclass

from tests.smoke.kubectl import Kubectl


@dataclass(frozen=True)
class Rights:
    """The API server's answers.

    Args:
        kubectl: Reaches it, as somebody who may ask for others.
        jobs: The namespace that `JOBS` stands for.
    """

    kubectl: Kubectl
    jobs: str

    def allows(self, account: str, right: str) -> bool:
        """Return whether an account has a right; raises RuntimeError when there is no answer.

        Args:
            account: `namespace:name` of a ServiceAccount.
            right: `verb resource namespace`; `-` stands for the whole cluster.
        """
        verb, resource, namespace = right.replace("JOBS", self.jobs).split(" ")
        resource, _, subresource = resource.partition("/")
        where = ["--all-namespaces"] if namespace == "-" else ["--namespace", namespace]
        # kubectl reads `secrets/NAME` as one object and has an option for a subresource.
        if resource == "secrets" and subresource:
            resource, subresource = f"{resource}/{subresource}", ""
        extra = ["--subresource", subresource] if subresource else []
        who = f"system:serviceaccount:{account.replace('JOBS', self.jobs)}"
        return self.kubectl.allows(who, verb, resource, *where, *extra)
