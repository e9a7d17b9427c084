"""Where a rank stood, from the dump that its Python wrote when it was stopped."""

from jobs.watch.stacks import before_stacks, stack_frames

_DUMP = [
    "Thread 0x00007f0a1b7fe6c0 (most recent call first):",
    '  File "/usr/lib/python3.13/threading.py", line 359 in wait',
    "",
    "Current thread 0x00007f0a3f0c1040 (most recent call first):",
    '  File "/opt/script/train.py", line 48 in fail',
    '  File "/opt/script/train.py", line 60 in <module>',
]


def test_the_main_thread_is_the_last_of_a_dump() -> None:
    found = stack_frames(["step 5", *_DUMP, "something else"])
    assert found == ["/opt/script/train.py:48 in fail", "/opt/script/train.py:60 in <module>"]


def test_of_several_dumps_the_last_counts_and_of_a_deep_one_the_innermost_frames() -> None:
    deep = ["Thread 0x01 (most recent call first):"]
    deep += [f'  File "a.py", line {number} in f' for number in range(20)]
    assert stack_frames([*_DUMP, *deep]) == [f"a.py:{number} in f" for number in range(6)]


def test_a_log_without_a_dump_tells_nothing() -> None:
    assert stack_frames(["Traceback (most recent call last):", '  File "a.py", line 1']) == []
    assert before_stacks(["a", "b"]) == ["a", "b"]


def test_what_comes_before_the_dump_is_the_log() -> None:
    assert before_stacks(["step 5", *_DUMP]) == ["step 5"]
