"""A job's own file or folder becomes a ConfigMap that its pods find whole."""

import base64
import os
import re
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.problem import Problem
from jobs.model.job import TrainingJob
from jobs.model.volumes import Script
from jobs.sources import LIMIT, read_script

KEY = "slipway:jobs.mine"


def write(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def read(checkout: Path, path: str, **fields: Any) -> Script | Problem:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLIPWAY_PROJECT", str(checkout))
        return read_script(TrainingJob(name="mine", script=path, **fields), KEY)


def script(checkout: Path, path: str = "train.py", **fields: Any) -> Script:
    found = read(checkout, path, **fields)
    assert isinstance(found, Script), found
    return found


def refusal(checkout: Path, path: str, **fields: Any) -> Problem:
    found = read(checkout, path, **fields)
    assert isinstance(found, Problem), found
    return found


def unpacked(found: Script) -> dict[str, bytes]:
    """Return the files as a pod finds them: what the ConfigMap's keys hold, under their paths."""
    config_map = found.config_map("jobs")
    held = {key: text.encode() for key, text in config_map.get("data", {}).items()}
    held |= {key: base64.b64decode(b) for key, b in config_map.get("binaryData", {}).items()}
    assert held.keys() == found.items.keys()
    return {path: held[key] for key, path in found.items.items()}


def test_a_file_is_mounted_under_its_own_name(tmp_path: Path) -> None:
    found = script(Path("/nowhere"), str(write(tmp_path, {"train.py": "print(1)\n"}) / "train.py"))
    assert (found.entry, unpacked(found)) == ("train.py", {"train.py": b"print(1)\n"})
    assert "binaryData" not in found.config_map("jobs")


def test_a_folder_is_mounted_as_it_is_without_caches_and_hidden_files(tmp_path: Path) -> None:
    wanted = {
        "own/train.py": b"import lib.a\n",
        "own/lib/a.py": b"A = 1\n",
        "own/lib/b/a.py": b"",
        "own/weights.bin": bytes(range(256)),
        "own/zero.txt": b"a\0b",
    }
    unwanted = (
        *("own/.git/config", "own/__pycache__/a.pyc", "own/lib/.hidden", "other.py"),
        *("own/env/pyvenv.cfg", "own/env/lib/a.py"),
    )
    found = script(write(tmp_path, {**wanted, **dict.fromkeys(unwanted, b"x")}), "own")
    assert unpacked(found) == {name.removeprefix("own/"): wanted[name] for name in wanted}
    assert len(found.config_map("jobs")["binaryData"]) == 2


@pytest.mark.parametrize("hidden", [[], [".gitignore"]])
def test_a_folder_that_programs_write_to_is_there(tmp_path: Path, hidden: list[str]) -> None:
    """Git keeps an empty folder by a hidden file in it; `save("results/1.png")` needs it."""
    (tmp_path / "own/out/results").mkdir(parents=True)
    write(tmp_path / "own", {"train.py": "", **{f"out/results/{name}": "" for name in hidden}})
    assert unpacked(script(tmp_path, "own")) == {"train.py": b"", "out/results/.gitkeep": b""}


def test_the_name_follows_content_paths_and_entry() -> None:
    files = {"a.py": b"1", "b.py": b"2"}
    base = Script("mine", "a.py", files)
    contents = {**files, "b.py": b"3"}, {"a.py": b"1", "c.py": b"2"}, {"a.py": b"1\0b.py\x002"}
    others = [Script("mine", "a.py", each) for each in contents]
    others += [Script("mine", "b.py", files), Script("other", "a.py", files)]
    assert len({each.name for each in (base, *others)}) == len(others) + 1
    turned = Script("mine", "a.py", dict(reversed(files.items())))
    assert (turned.name, turned.items) == (base.name, base.items)


_GUARDED = "if __name__ == '__main__':\n    main()\n"


@pytest.mark.parametrize(
    ("files", "named", "unnamed"),
    [
        ({"main.py": "", "b.py": "", "lib/a.py": ""}, ["did you mean", "main.py", "lib/a.py"], []),
        ({"main.py": _GUARDED, "b.py": _GUARDED, "a.py": ""}, ['"main.py"', "b.py"], ["a.py"]),
        (
            {"lm/__main__.py": _GUARDED, "lm/data.py": "", "lm/b/__main__.py": ""},
            ["`command: [python, -m, lm]`", "`command: [python, -m, lm.b]`"],
            ["data.py"],
        ),
        ({"names.txt": ""}, ['"train.py" is not a Python file in the folder'], []),
    ],
)
def test_a_folder_without_its_entry_lists_its_programs(
    tmp_path: Path, files: dict[str, str], named: list[str], unnamed: list[str]
) -> None:
    write(tmp_path / "own", files)
    problem = refusal(tmp_path, "own")
    assert problem.key == f"{KEY}.scriptEntry"
    assert all(each in problem.text for each in named), problem.text
    assert not any(each in problem.text.replace("main.py", "") for each in unnamed), problem.text


@pytest.mark.parametrize(
    "text",
    [
        "def main():\n    train()\n",
        "import os\nimport logging\nlog = logging.getLogger(__name__)\nclass Net: pass\n",
        "'About.'\n@hydra.main(version_base=None)\ndef main(cfg): ...\nEPOCHS: int = 3\n",
        "try:\n    import a\nexcept ImportError:\n    a = None\nasync def main(): await b()\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import a\ndef f(): ...\n",
    ],
    ids=["function", "logger", "decorator", "fallback", "typing"],
)
def test_a_module_that_only_defines_is_not_run(tmp_path: Path, text: str) -> None:
    """A run of it would succeed, having done nothing."""
    write(tmp_path / "own", {"train.py": text, "fit.py": _GUARDED})
    problem = refusal(tmp_path, "own/train.py")
    assert problem.key == f"{KEY}.script"
    assert 'end it with `if __name__ == "__main__": main()`' in problem.text
    problem = refusal(tmp_path, "own")
    assert problem.key == f"{KEY}.scriptEntry"
    assert "fit.py" in problem.text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "import trains_when_it_is_imported\n",
        f"def main(): ...\n{_GUARDED}",
        "def main(): ...\nfor epoch in range(3):\n    print(epoch)\n",
        "def train(): ...\nresult = train()\n",
        "def main(): ...\nthis is no Python of today\n",
        "def main(): ...\n\0",
        "def main(): ...\nx = " + "(" * 5000,
    ],
    ids=["empty", "import", "guard", "loop", "call", "syntax", "null", "nested"],
)
def test_whatever_may_do_something_is_run(tmp_path: Path, text: str) -> None:
    assert script(write(tmp_path, {"train.py": text})).entry == "train.py"


@pytest.mark.parametrize(
    ("files", "fields", "entry"),
    [
        # A single program needs no name.
        ({"main.py": "", "lib/a.py": _GUARDED}, {}, "main.py"),
        ({"main.py": _GUARDED, "model.py": ""}, {}, "main.py"),
        ({"main.py": _GUARDED, "train.py": ""}, {}, "train.py"),
        ({"sub/main.py": ""}, {"script_entry": "sub/main.py"}, "sub/main.py"),
        # A command needs no program.
        ({"train.sh": "echo"}, {"command": ("sh", "train.sh")}, ""),
        ({"train.py": "def main(): ...\n"}, {"command": ("fabric", "run", "train.py")}, ""),
    ],
)
def test_a_folder_has_one_entry(
    tmp_path: Path, files: dict[str, str], fields: dict[str, Any], entry: str
) -> None:
    assert script(write(tmp_path, files), ".", **fields).entry == entry


@pytest.mark.parametrize(
    ("path", "fields", "key", "words"),
    [
        ("run.sh", {}, "script", "is not a Python file (.py); for other programs use `build`"),
        ("train.py", {"script_entry": "a.py"}, "scriptEntry", "is a file; remove this key"),
        ("nowhere/a.py", {}, "script", "is neither a file nor a folder: there is no /"),
        ("trian.py", {}, "script", "Did you mean train.py?"),
        ("own", {"script_entry": "../train.py"}, "scriptEntry", "is not a Python file in the"),
    ],
)
def test_what_no_pod_could_start_is_refused(
    tmp_path: Path, path: str, fields: dict[str, Any], key: str, words: str
) -> None:
    write(tmp_path, dict.fromkeys(("run.sh", "train.py", "own/train.py"), ""))
    problem = refusal(tmp_path, path, **fields)
    assert problem.key == f"{KEY}.{key}"
    assert words in problem.text


def test_a_folder_over_the_limit_names_its_largest_files_and_a_remedy(tmp_path: Path) -> None:
    write(tmp_path / "own", {"train.py": "", "weights.bin": bytes(LIMIT - 300)})
    assert script(tmp_path, "own").files.keys() == {"train.py", "weights.bin"}
    text = refusal(write(tmp_path, {"own/weights.bin": bytes(LIMIT)}), "own").text
    assert all(words in text for words in ("weights.bin", "use `build`", "1,048,576")), text
    assert "without a cluster in another folder" in text
    with (tmp_path / "own/weights.bin").open("wb") as sparse:
        sparse.truncate(70 * LIMIT)  # it is not read
    assert "keep data in a volume" in refusal(tmp_path, "own").text
    (tmp_path / "own/weights.bin").unlink()
    runs = {f"own/runs/{number}.pt": bytes(number * LIMIT // 20) for number in range(9)}
    text = refusal(write(tmp_path, runs), "own").text
    assert "runs/8.pt (419,430), runs/7.pt (367,001), runs/6.pt" in text
    assert "runs/3.pt" not in text
    assert "in the job's `data` (docs/data.md)" in text


def test_links_are_followed_and_what_leads_nowhere_is_named(tmp_path: Path) -> None:
    """To files and folders inside and outside, but not in circles."""
    write(tmp_path, {"own/train.py": "t", "shared/a.py": "a", "shared/more/b.txt": "b"})
    (tmp_path / "own/deep").mkdir()
    for link, target in {
        "common": "../shared", "a.py": "common/a.py", "deep/up": "..", "deep/self": ".",
        "twice": "common", "weights.json": "/nowhere/weights.json", ".hidden": "/nowhere",
    }.items():  # fmt: skip
        (tmp_path / "own" / link).symlink_to(target)
    Path(os.fsdecode(os.fsencode(tmp_path / "own") + b"/caf\xe9.txt")).write_text("not UTF-8")
    found = script(tmp_path, "own")
    assert {name: content.decode() for name, content in found.files.items()} == {
        "train.py": "t", "a.py": "a", "common/a.py": "a", "common/more/b.txt": "b",
        "twice/a.py": "a", "twice/more/b.txt": "b", "deep/.gitkeep": "",
    }  # fmt: skip
    assert sorted(found.left_out) == ["'caf\\udce9.txt'", "'weights.json'"]


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=60)
LINES = st.sampled_from([b"a\r\n", b"b\n", b"\r", b"\xef\xbb\xbf", b"\xff", "ä🚀".encode(), b"\0"])


@given(st.dictionaries(NAMES, st.lists(LINES).map(b"".join), max_size=6))
@settings(max_examples=50, deadline=None)
def test_files_of_any_name_and_content_arrive_bytewise(files: dict[str, bytes]) -> None:
    """With blanks, quotes, line ends and emoji in names; CRLF, BOM and Latin-1 in contents."""
    files = {name: text for name, text in files.items() if name[0] != "."} | {"train.py": b"#"}
    with TemporaryDirectory() as checkout:
        write(Path(checkout, "my own"), files)
        found = script(Path(checkout), "my own")
    assert unpacked(found) == files
    assert all(re.fullmatch(r"[\w.-]{1,253}", key, re.ASCII) for key in found.items)
    assert found.left_out == ()


@pytest.mark.parametrize("odd", "\0\x01\x1b\x7f\x80\x85\u2028\u2029\ufffe\uffff")
def test_what_yaml_would_refuse_or_change_does_not_travel_as_text(odd: str) -> None:
    """The plugin sends YAML: it refuses control characters, and NEL to it ends a line."""
    held = Script("mine", "a.py", {"a.py": odd.encode(), "b": "\ufeffä🚀\r\n".encode()})
    assert held.config_map("jobs")["binaryData"].keys() == {"a.py"}
