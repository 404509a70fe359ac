"""A scenario file is taken as written, and every mistake in one is one line with path, got and expected."""

import pathlib
import re

import pytest

from carico_twin import measures, world
from carico_twin.evaluate import plan_file

WHOLE = """
name = "mine"
dead_agents = 0.0
limit_s = 300
[[nodes]]
count = 2
cores = 4
memory_gib = 8
[[nodes]]
cores = 8
full_speed = 0.7
[[jobs]]
work = "pi"
pods = 20
[[jobs]]
name = "own"
pods = 4
at_s = 5
create_per_s = 2
request_cores = 0.5
[jobs.work]
threads = 2
cpu_s = 6
memory_gib = 1
ramp_s = 2
[link]
delay_s = 0.05
loss = 0.01
[[neighbours]]
node = 2
tasks = 3
at_s = 1
until_s = 9
"""
LEAST = '[[nodes]]\n[[jobs]]\nwork = "pi"\npods = 2\n'


def test_a_whole_file_is_taken_as_written_and_runs() -> None:
    plan = plan_file.read("mine.toml", WHOLE.encode())
    assert [node.cores for node in plan.hardware] == [4.0, 4.0, 8.0]
    assert plan.hardware[2].memory_bytes == 16.0 * 2**30
    pi, own = plan.jobs
    assert (pi.name, pi.pods, pi.request_cores) == ("pi", 20, 1.0)
    assert (own.name, own.work.threads, own.request_cores, own.request_bytes) == ("own", 2.0, 0.5, 2.0**30)
    assert plan.link.loss == 0.01
    assert measures.measure(world.run(plan, world.OracleOptions(), seed=1)).finished


def test_what_is_left_out_has_a_default() -> None:
    plan = plan_file.read("least.toml", LEAST.encode())
    assert (plan.name, len(plan.hardware), plan.hardware[0].cores) == ("plan", 1, 4.0)


@pytest.mark.parametrize(
    ("content", "path", "expected"),
    [
        (LEAST + "colour = 1\n", "jobs[0].colour", "one of work, name, pods"),
        ("pods = 3\n" + LEAST, "pods", "one of name, nodes, jobs"),
        ('[[jobs]]\nwork = "pi"\npods = 1\n', "nodes", "at least one [[nodes]] table"),
        ("[[nodes]]\n", "jobs", "at least one [[jobs]] table"),
        (LEAST.replace("pods = 2", "pods = 0"), "jobs[0].pods", "a whole number from 1 to 100000"),
        (LEAST.replace("pods = 2", "pods = true"), "jobs[0].pods", "a whole number"),
        (LEAST.replace("\npods = 2", ""), "jobs[0].pods", "a whole number"),
        (LEAST.replace('"pi"', '"pie"'), "jobs[0].work", "one of pi, sklearn"),
        (LEAST.replace("[[nodes]]", "[[nodes]]\ncores = -4"), "nodes[0].cores", "a number from 0.1 to 4096"),
        (LEAST.replace("[[nodes]]", "[[nodes]]\ncores = nan"), "nodes[0].cores", "a number from 0.1"),
        (LEAST.replace("[[nodes]]", "[[nodes]]\nused_gib = 9"), "nodes[0].used_gib", "less than the node's memory_gib"),
        (LEAST.replace("[[nodes]]", "[[nodes]]\ncount = 6000"), "nodes[0].count", "a whole number from 1 to 5000"),
        (LEAST.replace('work = "pi"', "work = { cpu_s = 1, memory_gib = 64 }\nname = 'x'"), "jobs[0].work.memory_gib",
         "at most what is free on the largest node"),
        (LEAST.replace('work = "pi"', "work = {}\nname = 'x'"), "jobs[0].work", "either cpu_s or lifetime_s"),
        (LEAST.replace('work = "pi"', "work = { cpu_s = 1 }"), "jobs[0].name", "a name"),
        (LEAST.replace('"pi"', '"server"'), "jobs", "servers alone never end"),
        (LEAST + '[[jobs]]\nwork = "pi"\npods = 2\n', "jobs[1].name", "a name that no other job has"),
        (LEAST + "[link]\nloss = 1.5\n", "link.loss", "a number from 0 to 0.99"),
        (LEAST + "[[neighbours]]\nnode = 1\n", "neighbours[0].node", "a whole number from 0 to 0"),
        (LEAST + "[[neighbours]]\nnode = 0\nat_s = 5\nuntil_s = 4\n", "neighbours[0].until_s", "later than at_s, 5"),
        (LEAST.replace('work = "pi"', "wrok = 'pi'"), "jobs[0].wrok", "one of work, name, pods"),
        (LEAST.replace('work = "pi"', "name = 'x'"), "jobs[0].work", "one of pi, sklearn"),
        (LEAST.replace('work = "pi"', "work = 3"), "jobs[0].work", "one of pi, sklearn"),
        (LEAST.replace('work = "pi"', "work = { cpu_s = 1, lifetime_s = 2 }\nname = 'x'"), "jobs[0].work",
         "either cpu_s or lifetime_s"),
        ('"a\\u001b[31m\\nb" = 1\n' + LEAST, r"'a\x1b[31m\nb'", "one of name, nodes, jobs"),
        ('name = "a\\u001b[31m"\n' + LEAST, "name", "a name of 1 to 63 printable characters"),
        (f'name = "{"x" * 64}"\n' + LEAST, "name", "a name of 1 to 63 printable characters"),
        (LEAST + 'name = "two\\nlines"\n', "jobs[0].name", "a name of 1 to 63 printable characters"),
        (f"limit_s = 1{'0' * 400}\n" + LEAST, "limit_s", "a number from 1 to 86400"),
        (f"limit_s = 0x1{'0' * 5000}\n" + LEAST, "limit_s", "a number from 1 to 86400"),
        (LEAST + f"at_s = 1{'0' * 400}\n", "jobs[0].at_s", "a number of at least 0"),
        (f"limit_s = {list(range(9999))}\n" + LEAST, "limit_s", "a number from 1 to 86400"),
        (f"limit_s = {'9' * 5000}\n" + LEAST, "file", "TOML"),
        (f"limit_s = {'[' * 5000}{']' * 5000}\n" + LEAST, "file", "TOML"),
        (LEAST.replace("[[nodes]]", "[[nodes]]\njoin_at_s = 900"), "nodes[0].join_at_s", "less than limit_s, 900"),
        (LEAST + "at_s = 900\n", "jobs[0].at_s", "less than limit_s, 900"),
        (LEAST + "[[neighbours]]\nnode = 0\nat_s = 900\n", "neighbours[0].at_s", "less than limit_s, 900"),
        (LEAST + "create_per_s = 0.001\n", "jobs[0].create_per_s", "2 Pods created before limit_s, 900"),
        ("limit_s = 4\n" + LEAST, "jobs[0].work", "Pods that end before limit_s, 4"),
        (LEAST.replace('work = "pi"', "work = { cpu_s = 9, limit_cores = 0.001 }\nname = 'x'"), "jobs[0].work",
         "Pods that end before limit_s, 900"),
        ("nodes = 3\n", "nodes", "tables ([[nodes]])"),
        ("nodes = [3]\n", "nodes[0]", "a table"),
        ("= 3", "file", "TOML"),
    ],
)  # fmt: skip
def test_every_mistake_is_one_line_that_says_where(content: str, path: str, expected: str) -> None:
    with pytest.raises(plan_file.PlanError) as raised:
        plan_file.read("my.toml", content.encode())
    assert raised.value.path == path
    assert expected in raised.value.expected
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 300
    assert str(raised.value).startswith(f"my.toml, {path}: got ")


def test_text_that_is_not_toml_is_refused_with_its_place() -> None:
    with pytest.raises(plan_file.PlanError, match=r"end of document after a statement \(at line 100, column 10\)'"):
        plan_file.read("my.toml", b"\n" * 99 + b"name = 3 4")


def test_servers_need_not_end_before_the_run_is_given_up() -> None:
    plan = plan_file.read("my.toml", (LEAST + '[[jobs]]\nwork = "server"\npods = 2\ncreate_per_s = 0.001\n').encode())
    assert [job.name for job in plan.jobs] == ["pi", "server"]


def test_bytes_that_are_no_text_are_named() -> None:
    with pytest.raises(plan_file.PlanError, match="byte 0: got 255, expected UTF-8"):
        plan_file.read("my.toml", b"\xff")


def test_the_file_in_the_documentation_is_taken() -> None:
    page = (pathlib.Path(__file__).parents[4] / "docs" / "evaluation.md").read_text()
    found = re.search(r"```toml\n(.*?)```", page, re.S)
    assert found is not None
    plan = plan_file.read("docs/evaluation.md", found[1].encode())
    assert [job.name for job in plan.jobs] == ["pi", "render"]
