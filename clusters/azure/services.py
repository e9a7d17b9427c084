"""What the settings say of the services beside an AKS cluster."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Literal

from pydantic import Field
from pydantic.alias_generators import to_camel
from pydantic.dataclasses import dataclass

from clusters.azure.fields import CONFIG, Dollars, Email, Reference, RegistryName, StorageName


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class RegistrySettings:
    """The container registry that job images are pushed to.

    Args:
        name: Unique in all of Azure; made from the stack's and the subscription unless said.
        sku: What it has room for, and costs.
    """

    name: RegistryName | None = None
    sku: Literal["Basic", "Standard", "Premium"] = "Standard"


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Images:
    """Images that are somewhere already, where the nodes may pull them: nothing is built for them.

    Args:
        trainer: What jobs run in.
        trainer_cuda: What jobs with GPUs run in.
        training_operator: Kubeflow's training operator.
        tcp_wait: What a worker waits for its Master with.
    """

    trainer: Reference | None = None
    trainer_cuda: Reference | None = None
    training_operator: Reference | None = None
    tcp_wait: Reference | None = None

    @property
    def there(self) -> dict[str, str]:
        """Those that are, by the key that `images.there` has for them."""
        said = {to_camel(each.name): getattr(self, each.name) for each in fields(self)}
        return {key: value for key, value in said.items() if value is not None}


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class StorageSettings:
    """The storage account for data and artifacts.

    Args:
        name: Unique in all of Azure; made from the stack's and the subscription unless said.
        redundancy: Where copies are kept.
        retention_days: For how long what was deleted can be got back.
    """

    name: StorageName | None = None
    redundancy: Literal["Standard_LRS", "Standard_ZRS", "Standard_GRS", "Standard_GZRS"] = (
        "Standard_LRS"
    )
    retention_days: Annotated[int, Field(ge=1, le=365)] = 7


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Logs:
    """Diagnostic logs of the control plane, the registry and the storage account.

    Args:
        retention_days: How long they are kept; 30 days cost nothing besides what comes in.
        daily_gib: No more is taken in a day; -1 for no limit.
    """

    retention_days: Annotated[int, Field(ge=30, le=730)] = 30
    daily_gib: Annotated[float, Field(ge=-1, allow_inf_nan=False)] = 1


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Budget:
    """What may be spent in a month before somebody is told. Nothing is stopped by it.

    Args:
        amount: In the subscription's currency, for all of the stack's resources.
        emails: Who is told when 80 % and 100 % are spent, and when a forecast is above 100 %.
    """

    amount: Dollars
    emails: Annotated[tuple[Email, ...], Field(min_length=1, max_length=50)]
