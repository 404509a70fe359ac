"""The page's pure modules, run by the JavaScript engine that Playwright brings, against what Python writes and reckons.

The encoders of `carico_core.wire` and numpy are the oracles: what services say is what the page reads.
"""

import asyncio
import base64
import dataclasses
import json
import re
import subprocess
from typing import Any

import numpy as np
import playwright._impl._driver as driver  # where Playwright keeps its Node; it says so nowhere else
import pytest

from carico_core.domain import amounts, messages, pod_telemetry
from carico_core.runtime.bus.streams import kept
from carico_core.wire import freshness, subjects
from carico_core.wire import messages as wire
from carico_scheduler.answers import queries
from carico_web import site
from tests.fixtures.golden import records
from tests.tools.memory import memory_bus
from tests.unit.cli import fake_cluster
from tests.unit.scheduler import objects
from tests.unit.scheduler.answers import answering

BOOT = "18e9f814b6bb5a96"
SHOW = "const show = (value) => console.log(JSON.stringify(value));\n"

# What the panels ask of a document: elements, of which the text counts.
DOCUMENT = """
    globalThis.document = { createElement: () => ({
        children: [], dataset: {}, setAttribute() {}, addEventListener() {},
        append(...more) { this.children.push(...more); },
        replaceChildren(...all) { this.children = all; },
        get textContent() { return this.children.map((each) => each.textContent ?? each).join(""); },
        set textContent(text) { this.children = [text]; },
    }) };
"""


def run(script: str, *modules: str) -> Any:
    """What the script showed. Modules are imported under their own names."""
    imports = "".join(f'import * as {name} from "{(site.PAGE / name).as_uri()}.js";\n' for name in modules)
    node = driver.compute_driver_executable()[0]
    done = subprocess.run(
        [node, "--input-type=module", "-"], input=imports + SHOW + script, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def bytes_of(payload: bytes) -> str:
    return f'Uint8Array.from(atob("{base64.b64encode(payload).decode()}"), (c) => c.charCodeAt(0))'


def advertisement(node: str = "node-1.example", **given: Any) -> messages.Advertisement:
    cost = {"memory": messages.Estimate(mean=9.8e6, sd=1.5e6), "cpu": messages.Estimate(mean=1.22, sd=0.09)}
    return messages.Advertisement(**{
        "node": node, "boot": BOOT, "seq": 7, "ts_ns": 1_795_238_703_500_000_000,
        "sampled_at_ns": 1_795_238_703_250_000_000, "capacity": 3.5, "capacity_sd": 0.4, "bottleneck": "cpu",
        "signal": 8.2, "baseline": {}, "cost": cost, "pods": 2, "covers": frozenset({"uid"}),
        "mode": messages.Mode.MEASURED, "usage": {"memory": 0.1, "cpu": 0.6}, "parts": {"cpu.pressure": 0.2},
        "direction": {"cpu": 0.5, "memory": 0.05}, "headroom": {"cpu": 1.5, "memory": 2e9}, "limit": 8, **given,
    })  # fmt: skip


def test_an_advertisement_is_read_as_it_was_written() -> None:
    said = advertisement()
    payload = bytes_of(wire.encode_advertisement(said))
    read = run(f"show(signals.decodeAdvertisement('{subjects.capacity(said.node)}', {payload}))", "signals")
    assert read["node"] == said.node
    assert (read["capacity"], read["sd"], read["pods"], read["limit"]) == (3.5, 0.4, 2, 8)
    assert read["covers"] == ["uid"]
    assert read["dims"] == ["cpu", "memory"]
    assert read["usage"] == [0.6, 0.1]
    assert read["direction"] == [0.5, 0.05]
    assert read["cost"][0] == {"mean": 1.22, "sd": 0.09}
    assert read["baseline"] == [None, None]
    # Nanoseconds do not fit into a number of JavaScript; what is left is exact to a microsecond.
    assert read["ageAtSending"] == pytest.approx(0.25, abs=1e-6)


@pytest.mark.parametrize(
    ("subject", "payload"),
    [
        ("carico.v1.capacity.node-2", b'{"node":"node-1"}'),
        ("carico.v1.capacity.node-1", b"not JSON"),
        ("carico.v1.capacity.node-1", b"[]"),
        ("carico.v1.capacity.node-1", b'{"node":"<b>","usage":{}}'),
        ("carico.v1.capacity.node-1", b'{"node":"node-1","usage":{"cpu":null},"ts":1,"sampled_at":1}'),
        ("carico.v1.capacity.node-1", b'{"node":"node-1","usage":{"cpu":0.5},"ts":1,"sampled_at":1,"capacity":"3"}'),
    ],
)
def test_what_is_malformed_is_refused(subject: str, payload: bytes) -> None:
    said = run(
        f"try {{ signals.decodeAdvertisement('{subject}', {bytes_of(payload)}); show('read'); }}"
        "catch (error) { show('refused'); }",
        "signals",
    )
    assert said == "refused"


def test_the_model_is_read_and_its_main_direction_is_numpys() -> None:
    rng = np.random.default_rng(5)
    factor = rng.random((4, 9))
    gram = factor @ factor.T / 9
    model = messages.GlobalModel(
        replica="aggregator", boot=BOOT, seq=1, ts_ns=1, epoch=1_795_238_703_373, merge="round", contributors=3,
        weight=12.0, dims=("cpu", "memory", "disk", "gpu"), gram=gram, evidence={}, peak_pods_per_core=1.0,
    )  # fmt: skip
    read = run(
        f"const m = signals.decodeModel({bytes_of(wire.encode_model(model))});"
        "show({ ...m, main: linear.mainDirection(m.gram), values: linear.eigen(m.gram).map((e) => e.value) })",
        "signals", "linear",
    )  # fmt: skip
    values, vectors = np.linalg.eigh(gram)
    assert read["dims"] == list(model.dims)
    assert (read["contributors"], read["epochMs"]) == (3, model.epoch)
    np.testing.assert_array_equal(read["gram"], gram)
    np.testing.assert_allclose(read["values"], values[::-1], rtol=1e-10, atol=1e-14)
    main = np.sqrt(values[-1]) * vectors[:, -1] * np.sign(vectors[:, -1].sum())
    np.testing.assert_allclose(read["main"], main, rtol=1e-10)


async def test_the_page_reads_what_aggregators_answer_of_streams() -> None:
    bus = memory_bus.MemoryBus()
    answer = kept.endpoints(bus)
    for pod in ("p-0", "p-1"):
        record = fake_cluster.placed(pod)
        await bus.publish(subjects.decision("default", pod), wire.encode_decision(record))
    await bus.put_model(wire.encode_model(fake_cluster.model(at_ns=1_795_238_703_500_000_000)))
    for number in range(2):
        await bus.publish(subjects.SUMMARY, wire.encode_summary(dataclasses.replace(records.SUMMARY, seq=number)))
    summaries = await answer["kept.summaries"](b"{}")
    decisions, model = await answer["kept.decisions"](b'{"limit":200}'), await answer["kept.model"](b"{}")
    asked = (
        f"const answers = {{ decisions: {bytes_of(decisions)}, model: {bytes_of(model)}, "
        f"summaries: {bytes_of(summaries)}, none: new Uint8Array() }};"
        "let wanted = (subject) => answers[subject.split('.').at(-1)];"
        "const bus = {"
        "  request: async (subject) => new TextDecoder().decode(wanted(subject)),"
        "  requestAll: async (subject) => [{ status: 0, payload: wanted(subject) }],"
        "};"
        "const found = { pods: (await ask.recentDecisions(bus)).map((d) => d.pod), model: await ask.model(bus),"
        "  summaries: (await ask.summaries(bus)).map((s) => s.id) };"
        "wanted = () => answers.none;"
        "const { pods, summaries } = found;"
        "show({ pods, summaries, replica: found.model.replica, none: await ask.model(bus) });"
    )
    found = await asyncio.to_thread(run, asked, "ask")
    assert (found["pods"], found["none"]) == (["p-0", "p-1"], None)
    assert found["replica"]
    assert found["summaries"] == [f"{records.BOOT}-0", f"{records.BOOT}-1"]


def test_what_is_kept_is_asked_for_again_where_an_answer_is_late() -> None:
    found = run(
        """
        const answer = { kept: [] };
        const failing = (times, error) => {
          const bus = { asked: 0, waited: [], request: async (subject, fields, withinMs) => {
            bus.asked += 1;
            bus.waited.push(withinMs / 1000);
            if (bus.asked <= times) throw error;
            return JSON.stringify(answer);
          } };
          return bus;
        };
        const outcomes = [];
        const late = new bus.LateAnswer("no answer in time");
        const [none, slow] = ["no service answers", "CARICO_HISTORY: TimeoutError"].map((why) => new bus.NoAnswer(why));
        for (const each of [failing(2, late), failing(100, late), failing(1, none), failing(1, slow)]) {
          const said = await ask.summaries(each).then((all) => all.length, (error) => error.message);
          outcomes.push([said, each.asked, each.waited]);
        }
        show(outcomes);
        """,
        "ask", "bus",
    )  # fmt: skip
    # Each waits longer than the one before: where an answer needs six seconds, it would always be late for four.
    assert found == [
        [0, 3, [4, 8, 16]], ["no answer in time", 6, [4, 8, 16, 16, 16, 16]], ["no service answers", 1, [4]],
        [0, 2, [4, 8]],
    ]  # fmt: skip


def test_a_standby_is_asked_again() -> None:
    """The question reaches the leader another time; of any other refusal nothing is asked again."""
    found = run(
        f"const standby = {json.dumps(str(queries.NotLeading('carico-scheduler-1')))};"
        """
        const bus = (why) => ({ asked: 0, request: async function () {
          this.asked += 1;
          if (this.asked < 3) throw new Error(why);
          return JSON.stringify({ pods: 0, reasons: [] });
        } });
        const outcomes = [];
        for (const each of [standby, "expected a JSON object"].map(bus)) {
          const said = await ask.waiting(each).then((found) => found.pods, (error) => error.message);
          outcomes.push([said, each.asked]);
        }
        show(outcomes);
        """,
        "ask",
    )
    assert found == [[0, 3], ["expected a JSON object", 1]]


def test_a_connection_waits_for_no_answer_but_the_servers_first_line() -> None:
    """What it sends after its identity goes out at once; it is live once the server has taken it in."""
    sent = run(
        """
        class Socket {
          constructor() { this.readyState = 1; this.sent = []; Socket.last = this; }
          send(bytes) { this.sent.push(new TextDecoder().decode(bytes)); }
          close() {}
        }
        const states = [];
        const notify = ({ kind }) => states.push(kind);
        const made = new bus.Bus({ address: "ws://x", identify: async () => ({ user: "u" }), notify, Socket });
        made.subscribe("carico.v1.capacity.*", () => {});
        made.open();
        Socket.last.onmessage({ data: "INFO {}\\r\\n" });
        await new Promise((done) => setTimeout(done));
        const before = [...Socket.last.sent];
        Socket.last.onmessage({ data: "PONG\\r\\n" });
        const later = Socket.last.sent.length - before.length;
        // While the connection lasts, others come and go.
        made.unsubscribe(made.subscribe("carico.v1.pods.node-1", () => {}));
        Socket.last.readyState = 3;
        made.unsubscribe(made.subscribe("carico.v1.pods.node-2", () => {}));
        show([before.join("").split("\\r\\n"), later, states, Socket.last.sent.slice(before.length),
          made.subscriptions.size]);
        process.exit();
        """,
        "bus",
    )  # fmt: skip
    lines, later, states, changed, kept_on = sent
    assert [line.split(" ")[0] for line in lines] == ["CONNECT", "PING", "SUB", "SUB", ""]
    assert lines[2].startswith("SUB _INBOX.reader.") and lines[3] == "SUB carico.v1.capacity.* 2"
    assert (later, states) == (0, ["connecting", "live"])
    assert (changed, kept_on) == (["SUB carico.v1.pods.node-1 3\r\n", "UNSUB 3\r\n"], 2)


def test_what_pods_use_is_read_as_it_was_written_and_listened_to_while_it_is_looked_at() -> None:
    said = dataclasses.replace(records.LOADS, node="node-1.example")
    first, second = said.loads
    shown, listened = run(
        f"""
        let clock = 0;
        Date.now = () => clock;
        const listened = [];
        const fake = {{
          subscribe: (subject, handler) => {{ listened.push(subject); fake.say = handler; return "7"; }},
          unsubscribe: (sid) => listened.push(sid),
          requestAll: () => Promise.reject(new bus.NoAnswer("no service answers")),
        }};
        const known = new loads.Loads(fake);
        known.follow("node-1.example");
        known.follow("node-1.example");
        const uids = ["{first}", "{second}", "another"];
        const words = () => uids.map((uid) => known.words(uid));
        const shown = [words()];
        fake.say({{ subject: "{subjects.pods(said.node)}", payload: {bytes_of(wire.encode_loads(said))} }});
        shown.push(words());
        clock = 30_000;
        shown.push(words());
        known.follow(null);
        show([shown, listened]);
        """,
        "loads", "bus",
    )  # fmt: skip
    none = "no reading yet"
    assert shown == [[none] * 3, ["750m CPU, 11.5 MB", "125m CPU, 4.1 kB", none], [none] * 3]
    assert listened == ["carico.v1.pods.node-1_example", "7"]


@pytest.mark.parametrize(
    "payload",
    [
        b'{"node":"node-2","pods":{}}', b"not JSON", b'{"node":"node-1"}', b'{"node":"node-1","pods":[]}',
        b'{"node":"node-1","pods":{"u":[0,"1",0,1]}}', b'{"node":"node-1","pods":{"u":[0,1]}}',
        b'{"node":"node-1","pods":{"u":{"cores":1}}}',
    ],
)  # fmt: skip
def test_malformed_loads_are_refused(payload: bytes) -> None:
    said = run(
        f"try {{ signals.decodeLoads('carico.v1.pods.node-1', {bytes_of(payload)}); show('read'); }}"
        "catch (error) { show('refused'); }",
        "signals",
    )
    assert said == "refused"


def test_a_summary_is_read_as_it_was_written() -> None:
    said = records.SUMMARY
    read = run(
        f"const s = signals.decodeSummary({bytes_of(wire.encode_summary(said))});show({{ ...s, usage: [...s.usage] }})",
        "signals",
    )
    assert read["atMs"] == pytest.approx(said.ts_ns / 1e6, abs=1.0)
    assert (read["pods"], read["waiting"], read["oldest"], read["placed"], read["leftOff"]) == (12, 2, 12.5, 3, 1)
    assert dict(read["nodes"]) == said.nodes
    assert dict(read["usage"]) == {dim: list(each) for dim, each in said.usage.items()}
    assert [(each["kind"], each["about"], each["state"]) for each in read["events"]] == [
        (each.kind, each.about, each.state) for each in said.events
    ]


# Summaries of every five seconds, as `history` takes them; times in seconds.
_SUMMARIES = """
    const at = (s, changes) => ({
      id: `b-${s}`, atMs: 1000 * s, span: 5, nodes: [["fresh", 3]], pods: 4, capacity: 2, sd: 0.5,
      usage: new Map([["cpu", [0.1, 0.2, 0.3]]]), waiting: 0, oldest: 0, placed: 1, placedWaited: 0, events: [],
      leftOff: 0, ...changes,
    });
    const kept = new history.History();
"""


def test_history_keeps_a_quarter_of_an_hour_and_states_what_it_lacks() -> None:
    script = """
    for (let s = 2000; s > 0; s -= 5) kept.take(at(s));
    const again = kept.take(at(2000));
    const whole = [kept.summaries.length, kept.summaries[0].atMs, kept.summaries.at(-1).atMs, again];
    const found = [1500, 1502, 1098, 2015, 2020].map((s) => kept.at(1000 * s)?.atMs ?? null);
    kept.take(at(2040, { events: [{ atMs: 2039000, kind: "node", about: "node-1", state: "absent" }] }));
    kept.take(at(2045, { waiting: 2, oldest: 11 }));
    kept.take(at(2050, { waiting: 2, oldest: 2 }));
    show({ whole, found, events: kept.events().map((e) => [e.atMs, e.kind]) });
    """
    found = run(_SUMMARIES + script, "history")
    assert found["whole"] == [181, 1_100_000, 2_000_000, False]
    assert found["found"] == [1_500_000, 1_500_000, None, 2_000_000, None]
    assert found["events"] == [
        [2_000_000, "gap"], [2_039_000, "node"], [2_045_000, "waits"], [2_050_000, "placed"],
    ]  # fmt: skip


def test_what_a_clock_that_was_ahead_wrote_ends_with_the_next_summary() -> None:
    script = """
    for (const s of [5000, 5005]) kept.take(at(s), true);
    for (const s of [100, 105]) kept.take(at(s), true);
    const right = kept.summaries.map((each) => each.atMs / 1000);
    kept.take(at(20));
    show([right, kept.summaries.map((each) => each.atMs / 1000), kept.known.size]);
    """
    assert run(_SUMMARIES + script, "history") == [[100, 105], [20, 100, 105], 3]


def test_times_move_with_the_clock_by_which_they_are_shown() -> None:
    script = """
    const canvas = { addEventListener: () => {}, getContext: () => null };
    globalThis.ResizeObserver = class { observe() {} };
    let rows = 2;
    const list = { replaceChildren: () => { rows = 0; } };
    const shown = new flow.Flow(canvas, list, { frames: { touch: () => {} } });
    shown.take({ id: "a", key: "default/a", atMs: 1000, outcome: "bound", waited: 0 });
    shown.shift(500);
    kept.take(at(2, { events: [{ atMs: 1000, kind: "leader", about: "s", state: "leads" }] }), true);
    kept.shift(500);
    const again = kept.take(at(2));
    const found = new fleet.Fleet(10);
    found.recall([at(2)]);
    found.recallAll(kept.summaries);
    const totals = [];
    found.totals.forEach((ms) => totals.push(ms));
    show([
      rows, totals, shown.decisions.map((each) => each.atMs), shown.byPod.get("default/a").atMs, kept.summaries[0].atMs,
      kept.events().map((each) => each.atMs), again,
    ]);
    """
    assert run(_SUMMARIES + script, "fleet", "history", "flow") == [0, [2500], [1500], 1500, 2500, [1500], False]


def test_pods_that_wait_are_counted_as_the_scheduler_counts_them() -> None:
    # The page knows the decisions on two of the 45; a summary that is too old does not count.
    script = """
    const flow = { figures: () => ({ rate: 0, waiting: 2 }) };
    const counted = (nowMs) => summary.waitingPods(kept, flow, nowMs);
    const found = [counted(100_000)];
    kept.take(at(160, { waiting: 45 }), true);
    found.push(counted(161_000), counted(190_000));
    show(found);
    """
    assert run(_SUMMARIES + script, "history", "summary") == [2, 45, 2]


def test_pods_that_wait_are_not_known_while_no_scheduler_counts_them() -> None:
    script = """
    const counted = (nowMs) => summary.waitingPods(kept, { figures: () => ({ rate: 0, waiting: 0 }) }, nowMs);
    const found = [counted(100_000)];
    kept.take(at(160, { waiting: 0 }), true);
    found.push(counted(161_000), counted(190_000));
    show(found);
    """
    assert run(_SUMMARIES + script, "history", "summary") == [0, 0, None]


def test_a_moment_is_in_the_address_and_comes_back_from_it() -> None:
    script = """
    const location = { pathname: "/", search: "?x=1&at=2020-01-01T00:00:00Z", hash: "#node/node-1" };
    const there = history.addressAt(location, Date.UTC(2026, 10, 23, 15, 4, 5, 678));
    const back = history.addressAt({ ...location, search: there.slice(1, there.indexOf("#")) }, null);
    const read = ["?x=1&at=2026-11-23T15:04:05Z", "", "?at=noon"].map(history.atOf);
    show([there, back, read[0], read[1], String(read[2])]);
    """
    there, back, at, none, wrong = run(script, "history")
    assert there == "/?x=1&at=2026-11-23T15:04:05Z#node/node-1"
    assert back == "/?x=1#node/node-1"
    assert (at, none, wrong) == (1_795_446_245_000, None, "NaN")


def test_the_clusters_history_joins_what_the_page_heard_and_what_was_kept() -> None:
    script = """
    const ad = {
      node: "n", boot: "b", seq: 1, pods: 2, capacity: 3, sd: 0, dims: ["cpu"], usage: [0.5], ageAtSending: 0,
    };
    const found = new fleet.Fleet(10);
    found.recall([at(100), at(105)]);
    found.take(ad, 106_000);
    for (const s of [106, 107]) found.tick(1000 * s);
    // The bus was away from 108 to 150.
    found.take({ ...ad, seq: 2 }, 150_000);
    found.tick(150_000);
    found.recall([at(100), at(105), at(110), at(130, { pods: 7 }), at(148, { pods: 9 })]);
    const rows = [];
    found.totals.forEach((ms, i) => rows.push([ms / 1000, found.totals.columns[0][i], found.totals.columns[3][i]]));
    show(rows.map(([s, pods, median]) => [s, pods, Math.round(10 * median) / 10]));
    """
    # What was kept within four seconds of what the page heard adds nothing.
    assert run(_SUMMARIES + script, "history", "fleet") == [
        [100, 4, 0.2], [105, 4, 0.2], [106, 2, 0.5], [107, 2, 0.5], [130, 7, 0.2], [150, 2, 0.5],
    ]  # fmt: skip


@pytest.mark.parametrize("boot", ["b", "other"])
def test_nothing_of_a_cluster_that_was_replaced_under_its_name_stays(boot: str) -> None:
    script = """
    const ad = (node, boot, seq) => ({
      node, boot, seq, pods: 2, capacity: 3, sd: 0, dims: ["cpu"], usage: [0.5], ageAtSending: 0,
    });
    const made = (id, key, atMs) => ({ id, key, atMs, outcome: "bound", waited: 0 });
    const canvas = { addEventListener: () => {}, getContext: () => null };
    globalThis.ResizeObserver = class { observe() {} };
    const state = {
      fleet: new fleet.Fleet(10), history: new history.History(),
      flow: new flow.Flow(canvas, null, { frames: { touch: () => {} } }),
    };
    for (const node of ["n1", "n2"]) state.fleet.take(ad(node, "b", 1), 100_000);
    state.fleet.tick(100_000);
    state.history.take(at(100));
    state.flow.take(made("b-1", "default/before", 100_000));
    const before = new earlier.Earlier(state, 120_000);
    state.flow.take(made("x-1", "default/after", 121_000));
    state.history.take(at(121));
    const said = [];
    for (const s of [121, 124, 127]) {
      state.fleet.take(ad("n1", BOOT, s), 1000 * s);
      said.push([before.hears(ad("n1", BOOT, s), 1000 * s), before.isOfAnother(1000 * s)]);
    }
    if (said[2][1]) {
      state.flow.forget(before.decisions);
      state.history.forget(before.summaries);
      state.fleet.forget(before.begunMs);
      state.fleet.recall(state.history.summaries);
    }
    const rows = [];
    state.fleet.totals.forEach((ms) => rows.push(ms / 1000));
    show([
      said, state.flow.decisions.map((each) => each.id), [...state.flow.byPod.keys()], [...state.fleet.nodes.keys()],
      state.history.summaries.map((each) => each.atMs / 1000), rows,
    ]);
    """.replace("BOOT", f"'{boot}'")
    found = run(_SUMMARIES + script, "earlier", "fleet", "flow", "history")
    if boot == "b":
        assert found == [
            [[True, False]] * 3, ["b-1", "x-1"], ["default/before", "default/after"], ["n1", "n2"], [100, 121], [100],
        ]  # fmt: skip
    else:
        assert found == [
            [[False, False], [False, False], [False, True]], ["x-1"], ["default/after"], ["n1"], [121], [121],
        ]  # fmt: skip


def test_a_nodes_history_begins_before_the_page_was_opened() -> None:
    # As the scheduler answers: an interval without reports is a gap, and the newest row is the page's own.
    answer = {
        "columns": ["age_s", "pods", "capacity", "capacity_sd", "cpu", "memory", "cpu.pressure"],
        "rows": [[600.0 - 10 * row, row, 3.0, 0.5, 0.25, 0.5, 0.125] for row in range(60) if not 20 <= row < 30],
    }
    found = run(
        f"""
    const nowMs = 1_000_000;
    const before = signals.toRows({json.dumps(answer)}, nowMs);
    const state = new fleet.Fleet(10);
    const said = {{
      node: "n", boot: "1", seq: 1, pods: 99, capacity: 1, sd: 0, dims: ["cpu", "memory"], usage: [0.5, 0.5],
      pressure: 0.25, ageAtSending: 0,
    }};
    state.take(said, nowMs - 12_000);
    state.take({{ ...said, seq: 2 }}, nowMs);
    const rowsOf = ({{ dims, ring }}) => {{
      const rows = [];
      ring.forEach((ms, at) => rows.push([(ms - nowMs) / 1000, ...ring.columns.map((column) => column[at])]));
      return [dims, rows];
    }};
    const live = rowsOf(fleet.joined(state.nodes.get("n"), before));
    const [dead, none] = [before, []].map((rows) => rowsOf(fleet.joined(null, rows)));
    show([live, dead, none, signals.toRows(undefined, nowMs)]);
    """,
        "fleet", "signals",
    )  # fmt: skip
    (dims, rows), (dead_dims, dead), none, earlier = found
    assert dims == dead_dims == ["cpu", "memory"]
    assert rows[0] == [-600.0, 0, 3.0, 0.5, 0.125, 0.25, 0.5]
    assert [row[0] for row in rows[-3:]] == [-20.0, -12.0, 0.0], "the row at -10 s is younger than the page's first"
    assert rows[-1][1:] == [99, 1, 0, 0.25, 0.5, 0.5]
    assert [row[0] for row in rows[19:21]] == [-410.0, -300.0]
    assert (len(dead), dead[-1][0]) == (50, -10.0), "of a node that is gone, what was before"
    assert none == [[], []]
    assert earlier == [], "a scheduler of an earlier version keeps none"


def test_the_parser_reads_the_same_however_the_bytes_are_cut() -> None:
    stream = (
        b'INFO {"nonce":"abc"}\r\nPONG\r\nMSG a.b 1 5\r\nhello\r\nMSG a.b 2 _INBOX.x 0\r\n\r\n'
        b"HMSG _INBOX.y 3 16 16\r\nNATS/1.0 503\r\n\r\n\r\n"
        b"HMSG c 4 31 35\r\nNATS/1.0\r\nNats-Sequence: 12\r\n\r\nbody\r\nPING\r\n-ERR 'Slow'\r\n+OK\r\n"
    )
    script = """
    const text = (bytes) => new TextDecoder().decode(bytes);
    const read = (size) => {
      const heard = [];
      const parser = new protocol.Parser({
        info: (found) => heard.push(["info", found.nonce]), ping: () => heard.push(["ping"]),
        pong: () => heard.push(["pong"]), failed: (why) => heard.push(["failed", why]),
        message: (m) => heard.push([m.subject, m.sid, m.reply, m.status, [...m.headers], text(m.payload)]),
      });
      for (let at = 0; at < stream.length; at += size) parser.push(stream.subarray(at, at + size));
      return heard;
    };
    show([1, 2, 3, 7, 1000].map(read));
    """
    cuts = run(f"const stream = {bytes_of(stream)};{script}", "protocol")
    assert all(cut == cuts[0] for cut in cuts)
    assert cuts[0] == [
        ["info", "abc"], ["pong"], ["a.b", "1", "", 0, [], "hello"], ["a.b", "2", "_INBOX.x", 0, [], ""],
        ["_INBOX.y", "3", "", 503, [], ""], ["c", "4", "", 0, [["Nats-Sequence", "12"]], "body"],
        ["ping"], ["failed", "Slow"],
    ]  # fmt: skip


@pytest.mark.parametrize("stream", [b"HELLO\r\n", b"MSG a\r\n", b"MSG a 1 x\r\n", b"HMSG a 1 9 2\r\n", b"INFO {\r\n"])
def test_what_is_not_nats_is_refused(stream: bytes) -> None:
    script = f"try {{ new protocol.Parser({{}}).push({bytes_of(stream)}); show('read') }} catch {{ show('refused') }}"
    assert run(script, "protocol") == "refused"


def test_a_node_ages_as_the_services_have_it() -> None:
    ages = [0.0, 2.5, 2.51, 5.0, 5.01, 10.0, 10.01, 1e6]
    found = run(f"show({ages}.map((age) => fleet.stateOf(age, 10)))", "fleet")
    assert found == [freshness.classify(age, lease_s=10.0).value for age in ages]


def test_the_fleet_takes_only_what_is_newer() -> None:
    script = """
    const same = { node: "n", capacity: 1, sd: 0, dims: ["cpu"], usage: [0.5], ageAtSending: 0 };
    const ad = (boot, seq, pods) => ({ ...same, boot, seq, pods });
    const found = new fleet.Fleet(10);
    const took = [
      found.take(ad("b", 5, 1), 0), found.take(ad("b", 5, 2), 10), found.take(ad("b", 4, 2), 20),
      found.take(ad("a", 9, 2), 30), found.take(ad("c", 1, 3), 40), found.take(ad("a", 9, 4), 40 + 10_001),
    ].map(Boolean);
    found.tick(40 + 10_001);
    show({ took, pods: found.now.pods, rows: found.nodes.get("n").history.size });
    """
    assert run(script, "fleet") == {"took": [True, False, False, False, True, True], "pods": 4, "rows": 2}


def test_room_is_what_nodes_advertise_without_what_is_reserved() -> None:
    script = """
    const ad = (node, seq, capacity, covers) => ({
      node, boot: "b", seq, pods: 1, capacity, covers, sd: 0, dims: ["cpu"], usage: [0.5], ageAtSending: 0,
    });
    const map = (all) => Object.create(heatmap.HeatMap.prototype, { fleet: { value: all }, metric: { value: "room" } });
    const found = new fleet.Fleet(10);
    const seen = [];
    const see = (ms) => {
      found.tick(ms);
      seen.push([found.now.room, ...found.order().map((node) => [node.reserved, map(found).value(node).text])]);
    };
    found.take(ad("n1", 1, 2.5, []), 0);
    found.take(ad("n2", 1, 0.5, []), 0);
    see(0);
    found.reserve([["n1", "uid-a"], ["n2", "uid-b"], ["n1", "uid-c"], ["n3", "uid-d"]]);
    see(0);
    // Its report covers one of them now.
    found.take(ad("n1", 2, 1.5, ["uid-a"]), 1000);
    see(1000);
    found.reserve([]);
    see(1000);
    found.reserve(null);
    see(1000);
    show(seen);
    """
    assert run(script, "fleet", "heatmap") == [
        [3.0, [None, "2.5 Pods"], [None, "0.5 Pods"]], [0.5, [2, "0.5 Pods"], [1, "0 Pods"]],
        [0.5, [1, "0.5 Pods"], [1, "0 Pods"]], [2.0, [0, "1.5 Pods"], [0, "0.5 Pods"]],
        [2.0, [None, "1.5 Pods"], [None, "0.5 Pods"]],
    ]  # fmt: skip


async def test_the_page_reads_what_the_scheduler_answers_of_reservations() -> None:
    desk = answering.Desk(objects.make_node("node-1"))
    desk.hear("node-1")
    desk.state.put_pod(objects.make_pod("held", node_name="node-1"), answering.NOW_S)
    answer = await desk.answers.endpoints()["reservations.list"](b"{}")
    script = f"const bus = {{ request: async () => {json.dumps(answer.decode())} }}; show(await ask.reserved(bus));"
    assert await asyncio.to_thread(run, script, "ask") == [["node-1", "uid-held"]]


async def test_the_page_reads_all_pages_of_reservations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "RESERVATIONS_MOST", 2)
    desk = answering.Desk(objects.make_node("node-1"))
    for name in "abcde":
        desk.state.put_pod(objects.make_pod(name, node_name="node-1"), answering.NOW_S)
    listed = desk.answers.endpoints()["reservations.list"]
    answers = {
        after: (await listed(json.dumps({"after": after}).encode())).decode() for after in ("", "uid-b", "uid-d")
    }
    script = f"""
    const answers = {json.dumps(answers)};
    const bus = {{ request: async (subject, {{ after }}) => answers[after] }};
    show(await ask.reserved(bus));
    """
    found = await asyncio.to_thread(run, script, "ask")
    assert found == [["node-1", f"uid-{name}"] for name in "abcde"]


def test_a_part_that_is_due_waits_for_no_other_and_each_has_its_rate() -> None:
    found = run(
        """
        globalThis.document = { hidden: false, addEventListener() {} };
        let nowMs = 0;
        const timers = [];
        performance.now = () => nowMs;
        globalThis.setTimeout = (call, ms) => timers[timers.push({ call, atMs: nowMs + ms }) - 1];
        globalThis.clearTimeout = (made) => timers.includes(made) && timers.splice(timers.indexOf(made), 1);
        let asked = 0;
        let most = 0;
        globalThis.requestAnimationFrame = (call) => {
          most = Math.max(most, ++asked);
          setTimeout(() => call(asked--), 16);
        };
        const until = (ms) => {
          for (;;) {
            const next = timers.sort((a, b) => a.atMs - b.atMs)[0];
            if (!next || next.atMs > ms) break;
            timers.shift();
            nowMs = next.atMs;
            next.call();
          }
          nowMs = ms;
        };
        const drawn = [];
        const made = new frames.Frames();
        const add = (name, ms) => made.add(name, ms, () => drawn.push([name, Math.round(nowMs)]));
        add("slow", 1000);
        add("fast", 100);
        until(200);
        made.touch("slow");
        until(300);
        made.touch("fast");
        until(350);
        made.touch("fast");
        until(500);
        made.touchNow("slow");
        until(600);
        made.touch("slow");
        // Its frame has been asked for, and comes in a moment: the other part does not ask for one of its own.
        until(drawn.at(-1)[1] + 995);
        made.touchNow("fast");
        until(3000);
        show([drawn, most]);
        """,
        "frames",
    )  # fmt: skip
    drawn, most = found
    assert most == 1
    assert [name for name, _ in drawn[:6]] == ["slow", "fast", "fast", "fast", "slow", "fast"]
    assert [name for name, _ in drawn[6:]] == ["slow"]
    at = [ms for _, ms in drawn[2:]]
    assert 300 <= at[0] <= 320 and 400 <= at[1] <= 430 and 500 <= at[2] <= 520 and 1500 <= at[3] <= at[4] <= 1560


def test_the_ring_keeps_the_newest_and_their_order() -> None:
    script = """
    const found = new ring.Ring(3, 1);
    [0, 100, 1000, 2000, 3000, 3100].forEach((ms, i) => found.push(ms, [i], 900));
    const rows = [];
    found.forEach((ms, at) => rows.push([ms, found.columns[0][at]]));
    show({ rows, oldest: found.oldestMs() });
    """
    # What comes before its time takes the place of the newest.
    assert run(script, "ring") == {"rows": [[1000, 2], [2000, 3], [3000, 5]], "oldest": 1000}


# What a person reads of each number: (call, words). Values on both sides of a change of unit or digit are adjacent.
NUMBERS = (
    ("percent(0)", "0 %"), ("percent(0.0123)", "1.2 %"), ("percent(0.0994)", "9.9 %"), ("percent(0.0996)", "10 %"),
    ("percent(0.5)", "50 %"), ("whole(12345)", "12,345"), ("count(1, 'Pod')", "1 Pod"), ("count(0, 'Pod')", "0 Pods"),
    ("count(1000, 'node')", "1,000 nodes"), ("pods(3)", "3"), ("pods(2.54)", "2.5"), ("pods(-0.56)", "−0.6"),
    ("pods(-0.01)", "0.0"), ("pods(2777.1)", "2,777"), ("podsAbout(0, 0.04)", "0.0 ± 0.0"),
    ("podsAbout(4.42, 0.5)", "4.4 ± 0.5"), ("podsAbout(2777.1, 13.3)", "2,777 ± 13"), ("seconds(0)", "0 s"),
    ("seconds(-1e-9)", "0 s"), ("seconds(0.00004)", "40 µs"), ("seconds(0.0045)", "4.5 ms"),
    ("seconds(0.25)", "250 ms"),
    ("seconds(0.9996)", "1.0 s"), ("seconds(9.96)", "10 s"), ("seconds(75)", "75 s"), ("seconds(119.6)", "2 min"),
    ("seconds(7199)", "2 h"), ("seconds(7200)", "2 h"), ("seconds(1e6)", "12 days"), ("perSecond(0)", "0/s"),
    ("perSecond(0.2)", "0.2/s"), ("perSecond(1234.5)", "1,235/s"), ("degrees(5)", "5°"), ("degrees(5.34)", "5.3°"),
    ("millicores(0.5024)", "502m"), ("millicores(1.25)", "1250m"), ("millicores(0)", "0m"),
    ("times(0.987)", "0.99 times"), ("score(2.456)", "2.46"), ("quantity('cpu', -2.1)", "−2.10 tasks"),
    ("quantity('cpu', -0.001)", "0.00 tasks"), ("quantity('memory', 1.015e9)", "1.0 GB"),
    ("quantity('memory', 4.33e8)", "433 MB"), ("quantity('memory', 999.6e6)", "1.0 GB"),
    ("quantity('memory', -23.2e6)", "−23.2 MB"), ("quantity('memory', 12)", "12 B"),
    ("quantity('network', 2.5e5)", "250 kB/s"), ("quantity('gpu', 1.5)", "1.50 GPUs"),
    ("quantity('disk', 0.5)", "50 %"),
    ("estimate('cpu', null)", "not known yet"), ("estimate('cpu', { mean: 2.3611, sd: 0.0539 })", "2.36 ± 0.05 tasks"),
    ("estimate('memory', { mean: 1.3e6, sd: 5.24e5 })", "1.3 ± 0.5 MB"),
    ("estimate('memory', { mean: 6e8, sd: 4e7 })", "600 ± 40 MB"),
    ("estimate('disk', { mean: 0.5, sd: 0.02 })", "50.0 ± 2.0 %"),
    ("dimension('gpu_memory')", "GPU memory"), ("dimension('pods_per_core')", "pods per core"),
    ("moment(new Date(2026, 10, 3, 1, 2, 3), new Date(2026, 10, 3, 23))", "01:02:03"),
    ("moment(new Date(2026, 10, 3, 1, 2, 3), new Date(2026, 10, 4, 1))", "2026-11-03 01:02:03"),
)  # fmt: skip


def test_numbers_as_people_read_them() -> None:
    calls = ", ".join(f"format.{call}" for call, _ in NUMBERS)
    found = run(f"show([{calls}])", "format")
    assert dict(zip((call for call, _ in NUMBERS), found, strict=True)) == dict(NUMBERS)


@pytest.mark.parametrize("dim", ["cpu", "gpu", "memory", "gpu_memory", "network", "disk"])
def test_page_and_command_line_format_amounts_alike(dim: str) -> None:
    values = [0.0, 0.004, -0.26, 1.224, 12.0, 999.6, 12345.6, 4.33e8, -1.015e9, 6.4e12]
    found = run(f"show({values}.map((value) => format.quantity('{dim}', value)))", "format")
    plain = [text.replace("−", "-").replace(" %", "%").replace(",", "") for text in found]
    assert plain == [amounts.text(dim, value) for value in values]


def test_numbers_are_formatted_in_one_module() -> None:
    """Elsewhere a number would be written as JavaScript writes it: 1015000000, 0.30000000000000004."""
    made = re.compile(r"\.toFixed|\.toPrecision|\.toExponential|\.toLocaleString|Intl\.|Math\.round\([^)]*\)\}")
    found = [path.name for path in site.PAGE.glob("*.js") if made.search(path.read_text(encoding="utf-8"))]
    # `Intl` besides: the order of names in fleet.js.
    assert sorted(found) == ["fleet.js", "format.js"]


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_text_has_enough_contrast_on_every_colour_of_the_map(theme: str) -> None:
    style = (site.PAGE / "style.css").read_text(encoding="utf-8")
    cards = re.findall(r"--card: (#[0-9a-f]{6});", style)
    script = f"""
    const hex = (text) => [1, 3, 5].map((i) => Number.parseInt(text.slice(i, i + 2), 16));
    const rgb = (text) => (text[0] === "#" ? hex(text) : text.match(/\\d+/g).map(Number));
    const found = theme.heatOf("{theme}", "{cards[0] if theme == "dark" else cards[1]}");
    const ratio = (colour, ink) => theme.contrast(rgb(colour), rgb(ink));
    const least = (colours, inks) => Math.min(...colours.map((colour, i) => ratio(colour, inks[i])));
    show([least(found.heat, found.heatInk), least(found.aged, found.agedInk), found.heat.length]);
    """
    heat, aged, steps = run(script, "theme")
    # https://www.w3.org/TR/WCAG22/#contrast-minimum
    assert min(heat, aged) >= 4.5
    assert steps == 65


def test_nothing_moves_where_no_motion_is_wanted() -> None:
    script = """
    const drawn = (isCalm) => [100, 600].map((age) => {
      const seen = [];
      const context = { beginPath() {}, rect() {}, fill() { seen.push(context.globalAlpha); } };
      const map = { isCalm: { matches: isCalm }, theme: {} };
      const again = heatmap.HeatMap.prototype.pulse.call(map, context, { placedMs: 0 }, 0, 0, {}, age);
      return [seen[0], again];
    });
    show({ calm: drawn(true), moving: drawn(false) });
    """
    found = run(script, "heatmap")
    assert found["calm"][0] == found["calm"][1] == [pytest.approx(0.315), False]
    assert found["moving"][0][0] > found["moving"][1][0]
    assert all(again for _, again in found["moving"])


def test_a_chart_of_pods_ends_at_a_number_with_a_whole_half() -> None:
    found = run("show([0, 0.3, 1.9, 2.1, 5, 11, 61, 2777].map(chart.roundTop))", "chart")
    assert found == [2, 2, 2, 4, 6, 20, 80, 4000]
    assert all(top % 2 == 0 for top in found)


def test_a_pod_that_was_decided_again_has_one_row() -> None:
    decisions = """
    const decided = (id, key, outcome, atMs) => ({ id, key, outcome, atMs, waited: 2 });
    const all = [
      decided("1", "a", "unschedulable", 1000), decided("2", "b", "unschedulable", 2000),
      decided("3", "a", "bound", 3000), decided("4", "c", "bind_conflict", 4000), decided("5", "c", "bound", 5000),
    ];
    const byPod = new Map(all.map((each) => [each.key, each]));
    """
    rows = "flow.newestRows(all, byPod, 40).map((each) => each.id)"
    assert run(f"{decisions} show({rows})", "flow") == ["5", "4", "3", "2"]
    assert run(f"{decisions} show(flow.newestRows(all, byPod, 2).length)", "flow") == 2
    # One that still waits has waited longer than when it was decided.
    assert run(f"{decisions} show(flow.waitedNow(all[1], 12_000))", "flow") == 12


def test_a_flash_does_not_look_like_the_selection() -> None:
    script = """
    const calls = [];
    const context = new Proxy({}, { get: (_, name) => (...given) => calls.push(name), set: () => true });
    const map = Object.create(heatmap.HeatMap.prototype);
    Object.assign(map, { isCalm: { matches: false }, theme: { ink: "#000" } });
    const isMoving = map.pulse(context, { placedMs: 1000 }, 0, 0, { wide: 40, high: 40, hasWords: true }, 1100);
    show([isMoving, calls.includes("fill"), calls.includes("stroke")]);
    """
    assert run(script, "heatmap") == [True, True, False]


def test_members_are_read_as_they_were_written_and_forgotten_when_they_are_silent() -> None:
    one = records.HEARTBEAT_REPORT
    assert one.report is not None
    two = dataclasses.replace(
        one,
        replica="scheduler-2",
        is_leaving=True,
        report=dataclasses.replace(one.report, why_not="stopping", recent=80),
    )
    three = dataclasses.replace(records.HEARTBEAT_CORRECTIONS, replica="scheduler-3")
    taken = "".join(
        f"known.take(signals.decodeHeartbeat({bytes_of(wire.encode_heartbeat(each))}), {at_ms});\n"
        for each, at_ms in ((one, 5000), (two, 5000), (three, 6000))
    )
    rows, words, together, later = run(
        f"""const known = new members.Members();
        {taken}
        const rows = known.rows(7000);
        show([rows, rows.map(members.words), members.together(rows), known.rows(8500).map((row) => row.name)]);""",
        "signals", "members",
    )  # fmt: skip
    assert [row["name"] for row in rows] == [one.replica, "scheduler-2", "scheduler-3"]
    assert [row["part"] for row in rows] == [0.75, 0.25, None]
    assert words == [
        "75 % of the claims, 12 conflicts, 3 waits, view 250 ms old, holds the Lease", "takes no Pods: stopping",
        "does not report",
    ]  # fmt: skip
    assert together.split(", ") == [
        "2 of 3 decide", "320 claims in the last minute", "0.2 % conflicts", "1 Pod to correct", "room held for 1 Pod",
        "1 claim without a Pod",
    ]  # fmt: skip
    assert later == ["scheduler-3"]
    boot = "17979cfe362a1b2c"
    starts = [f"scheduler-{boot}", f"scheduler-2-{boot}", f"scheduler-3-{boot}", "scheduler-3-17979cfe362a1b2d"]
    rows = [{"name": name} for name in starts]
    assert run(f"show(members.shown({json.dumps(rows)}))", "members") == ["scheduler", "scheduler-2", *starts[2:]]


LINKS = [{"one": "n10", "other": "n2", "bytes_per_s": 3e6}, {"one": "n2", "other": "n1", "bytes_per_s": 1e6}]
TRAFFIC = {"has_traffic": True, "between_bytes": 4e6, "within_bytes": 12e6, "links": LINKS}
MOVE = {
    "pod": "default/web", "from": "n1", "to": "n2", "state": "moved", "why": "1 MB/s less between nodes", "age_s": 30.0,
    "took_s": 10.0,
}  # fmt: skip


def test_traffic_between_nodes_is_told_in_words_and_places() -> None:
    read = run(
        f"const found = traffic.toTraffic({json.dumps(TRAFFIC)});"
        "show([traffic.together(found), [...traffic.places(found.links, null)], found.links[0]])",
        "traffic",
    )
    assert read[0] == "4.0 MB/s between nodes, 75 % of all traffic stays on a node"
    # By name, as people count, from the top around the circle.
    assert [name for name, _ in read[1]] == ["n1", "n2", "n10"]
    assert [angle for _, angle in read[1]] == pytest.approx([-np.pi / 2 + 2 * np.pi * part / 3 for part in range(3)])
    assert read[2] == {"one": "n10", "other": "n2", "rate": 3e6}


def test_the_nodes_of_a_move_are_in_the_picture_of_a_large_cluster() -> None:
    links = [{"one": f"a{number}", "other": f"b{number}", "rate": 1.0} for number in range(40)]
    read = run(f"show([...traffic.places({json.dumps(links)}, {{from: 'x', to: 'y'}}).keys()])", "traffic")
    assert len(read) == 24 and {"x", "y"} <= set(read)


def test_moves_are_told_as_they_happen() -> None:
    answer = {"current": {**MOVE, "took_s": None, "state": "waiting"}, "ended": [MOVE] * 9, "paused": "", "rests": ""}
    read = run(
        f"const found = traffic.toMoves({json.dumps(answer)});"
        "show([traffic.moveWords(found.current, true), found.ended.map((each) => traffic.moveWords(each, false))])",
        "traffic",
    )
    assert read[0] == "under way, for 30 s, 1 MB/s less between nodes"
    assert read[1] == ["moved, 20 s ago, 1 MB/s less between nodes"] * 6


@pytest.mark.parametrize("links", [None, 1, [None, 1, {}], [{"one": "a", "other": 2, "bytes_per_s": 1}],
                                   [{"one": "a", "other": "b", "bytes_per_s": "9"}]])  # fmt: skip
def test_what_is_no_traffic_or_move_is_left_out(links: object) -> None:
    answer = {"has_traffic": True, "between_bytes": None, "within_bytes": "x", "links": links}
    moves = {"current": 3, "ended": [None, {"pod": 1, "age_s": -1, "took_s": "x"}], "paused": None}
    read = run(
        f"show([traffic.toTraffic({json.dumps(answer)}), traffic.toMoves({json.dumps(moves)}),"
        "traffic.together(traffic.toTraffic({})), [...traffic.places([], null)]])",
        "traffic",
    )
    assert read[0] == {"isKnown": True, "between": 0, "within": 0, "links": []}
    empty = {"pod": "", "from": "", "to": "", "state": "", "why": "", "age": 0, "took": 0}
    assert read[1] == {"current": None, "ended": [empty], "paused": ""}
    assert read[2:] == ["no agent reports traffic between Pods", []]


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        # What is reported later is newer.
        ("new Map([[asked, old]])", [[], ["250m CPU, 8.1 MB"], ["750m CPU, 8.1 MB"]]),
        # No agent, or one of an earlier version.
        ("new Map()", [[], ["no reading yet"], ["750m CPU, 8.1 MB"]]),
    ],
)
def test_what_pods_use_is_asked_for_before_it_is_reported(answers: str, expected: list[list[str]]) -> None:
    def payload(seq: int, cores: float) -> str:
        loads = {"uid-a": pod_telemetry.PodLoad("app/default/web", cores, 0.0, 8.1e6)}
        found = pod_telemetry.PodLoads(node="node-1.example", boot=BOOT, seq=seq, ts_ns=1, loads=loads)
        return bytes_of(wire.encode_loads(found))

    script = f"""
        const old = {payload(1, 0.25)}, next = {payload(2, 0.75)};
        const asked = "{subjects.query("agent", "loads.get", "node-1.example")}";
        const answers = {answers}, heard = new Map(), seen = [[]];
        const fake = {{
            subscribe: (subject, handler) => {{ heard.set(subject, handler); return subject; }},
            unsubscribe: (sid) => heard.delete(sid),
            requestAll: async (subject) => {{
                if (!answers.has(subject)) throw new bus.NoAnswer("no service answers");
                return [{{ payload: answers.get(subject) }}];
            }},
        }};
        const found = new loads.Loads(fake);
        await found.ask();
        found.follow("node-1.example");
        await found.ask();
        seen.push([found.words("uid-a")]);
        const subject = "{subjects.pods("node-1.example")}";
        heard.get(subject)({{ subject, payload: next }});
        seen.push([found.words("uid-a")]);
        found.follow(null);
        if (heard.size) throw new Error("it still listens");
        show(seen);
    """
    assert run(script, "loads", "bus") == expected


def test_a_waiting_pod_has_its_place_in_the_queue() -> None:
    answers: list[dict[str, Any]] = [
        {"state": "waiting", "waited_s": 90.0, "before": 84}, {"state": "waiting", "waited_s": 6.7, "before": 1},
        {"state": "waiting", "waited_s": 6.7, "before": 0}, {"state": "waiting", "waited_s": 6.7, "before": None},
        {"state": "waiting", "waited_s": None}, {"state": "bound", "waited_s": 3.0, "before": 2},
    ]  # fmt: skip
    assert run(f"show({json.dumps(answers)}.map((each) => pod_panel.waitWords(each)));", "pod_panel") == [
        "For 90 s; 84 Pods wait before it.", "For 6.7 s; 1 Pod waits before it.", "For 6.7 s; no Pod waits before it.",
        "For 6.7 s.", "", "",
    ]  # fmt: skip


async def test_a_name_that_nothing_has_leads_to_nodes_and_pods_with_names_like_it() -> None:
    desk = answering.Desk(objects.make_node("node-1"), objects.make_node("node-3"))
    desk.state.put_pod(objects.make_pod("pg-0-7xk"), answering.NOW_S)
    desk.state.put_pod(objects.make_pod("web", namespace="shop", uid="u"), answering.NOW_S)
    asked = {
        name: [await desk.ask("pod.explain", namespace="default", pod=name), await desk.ask("node.explain", node=name)]
        for name in ("nod-3", "pg", "web", "node-1", "zzzzzzzz")
    }
    script = f"""{DOCUMENT}
        const page = {{
            nodeButton: (name) => `node ${{name}}`, podButton: (key) => key,
            flow: {{ byPod: new Map([["default/pg-9-ended", 0], ["default/pg", 0], ["other/pg-1", 0]]) }},
        }};
        const found = {{}};
        for (const [name, [pod, node]] of Object.entries({json.dumps(asked)})) {{
            const nodes = await ask.nodesLike({{ request: async () => JSON.stringify(node) }}, name);
            const last = (said) => said.map((each) => each.textContent).at(-1);
            found[name] = [last(pod_panel.standing(page, pod, nodes)), last(node_panel.explained(page, node))];
            if (node.known) found[name].pop();
        }}
        show(found);
    """
    none, no_node = "unknown: no Pod of this name waits or runs, and no decision about one is remembered.", "The API"
    found = await asyncio.to_thread(run, script, "ask", "pod_panel", "node_panel")
    assert found == {
        "nod-3": ["Similar names: node node-3, node node-1.", "Similar names: node node-3, node node-1."],
        "pg": ["Similar names: default/pg-0-7xk, default/pg-9-ended.", f"{no_node} shows no such Node."],
        "web": ["Similar names: shop/web.", f"{no_node} shows no such Node."],
        "node-1": ["Similar names: node node-1."], "zzzzzzzz": [none, f"{no_node} shows no such Node."],
    }  # fmt: skip


def test_a_pod_that_does_not_run_says_why_as_does_its_node() -> None:
    why = "container main ended with exit code 3, and was started again 5 times; CrashLoopBackOff"
    answer = {"state": "bound", "node": "node-1", "why": "node-1 had room", "covered": False, "stuck": why}
    rows = [
        {"namespace": "default", "pod": "crash", "uid": "uid-a", "class": "image/default/pi", "stuck": why},
        {"namespace": "default", "pod": "well", "uid": "uid-b", "class": "image/default/pi", "stuck": ""},
    ]
    script = f"""{DOCUMENT}
        const words = (found) => found.map((each) => each.textContent);
        const page = {{ nodeButton: (name) => name }};
        const panel = Object.create(node_panel.NodePanel.prototype);
        Object.assign(panel, {{ uses: new Map(), pods: document.createElement() }});
        panel.drawPods({{ pods: {json.dumps(rows)}, placed: 2 }});
        show({{
            stuck: words(pod_panel.standing(page, {json.dumps(answer)})),
            well: words(pod_panel.standing(page, {json.dumps(answer | {"stuck": "", "covered": True})})),
            rows: words(panel.pods.children), reads: [...panel.uses.keys()],
        }});
    """
    read = run(script, "pod_panel", "node_panel")
    assert read["well"] == ["bound on node-1: node-1 had room."]
    assert read["stuck"] == [
        *read["well"], f"C{why[1:]}.", "Its node's reports do not count it yet: its room is reserved.",
    ]  # fmt: skip
    assert read["rows"] == [f"default/crashimage/default/pi{why}", "default/wellimage/default/pi"]
    assert read["reads"] == ["uid-b"]
