"""The live page in a real browser, with a simulated fleet: what it shows, keys, faults, and which requests it sends."""

import asyncio
import datetime
import json
import re
import time

import nats
import nats.aio.msg
import playwright.async_api as browsers
import pytest

from carico_auth import arrangements
from carico_core.domain import pod_telemetry
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_local.cluster.services import web_access
from tests.fixtures.golden import records
from tests.tools import waiting
from tests.tools.sites import web_site
from tests.unit.scheduler import objects
from tests.unit.scheduler.answers import answering

pytestmark = [pytest.mark.system, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]
expect = browsers.expect
WITHIN_MS = 60_000


async def opened(page: browsers.Page, stage: web_site.Stage, fragment: str = "") -> None:
    """The page, live and with all nodes on it."""
    await page.goto(stage.url + fragment)
    await expect(page.locator("#bus-state")).to_have_text("live", timeout=WITHIN_MS)
    await expect(page.locator("#sum-nodes")).to_have_text(str(len(stage.fleet.nodes)), timeout=WITHIN_MS)


async def paused_at(page: browsers.Page, found: browsers.Locator) -> None:
    """The page, paused once it shows this, which it need not do at first."""
    await expect(found).to_be_visible(timeout=WITHIN_MS)
    await page.keyboard.press("p")


async def test_the_cluster_is_shown_live_and_nothing_is_polled(page: browsers.Page, stage: web_site.Stage) -> None:
    asked: list[str] = []
    sockets: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("websocket", lambda socket: sockets.append(socket.url))
    await opened(page, stage)
    await expect(page.locator("#sum-nodes-sub")).to_have_text("all fresh", timeout=WITHIN_MS)
    await expect(page.locator("#model-note")).to_contain_text("of 60 nodes, round merge", timeout=WITHIN_MS)
    await expect(page.get_by_role("button", name="node-")).not_to_have_count(0, timeout=WITHIN_MS)
    known = len(asked)
    newest = page.locator("#flow-list li").first
    for _ in range(3):
        # Not their number: the list is no longer than its rows.
        shown = await newest.get_attribute("data-id")
        assert shown is not None
        await expect(newest).not_to_have_attribute("data-id", shown)
    assert len(asked) == known, "it asks by HTTP again"
    assert all(url.startswith(stage.url) for url in asked)
    assert len(sockets) == 1


async def test_the_values_of_an_axis_have_room_next_to_it(page: browsers.Page, stage: web_site.Stage) -> None:
    await opened(page, stage)
    room = await page.evaluate(
        """async () => {
          const { font, PAD } = await import("/canvas.js");
          const context = document.createElement("canvas").getContext("2d");
          context.font = font(12);
          // As `level` draws them.
          return ["≥ 10 min", "100 %", "1,000,000"].map((text) => PAD.left - 6 - context.measureText(text).width);
        }"""
    )
    assert min(room) > 0.0


async def test_the_keyboard_goes_everywhere(page: browsers.Page, stage: web_site.Stage) -> None:
    await opened(page, stage)
    canvas, said = page.locator("#map"), page.locator("#map-said")
    await canvas.focus()
    await canvas.press("Home")
    await expect(said).to_contain_text("node-1: CPU")
    await canvas.press("ArrowRight")
    await expect(said).to_contain_text("node-2: CPU")
    await canvas.press("ArrowDown")
    await expect(said).not_to_contain_text("node-2:")
    await canvas.press("End")
    await expect(said).to_contain_text("node-60: CPU")
    await canvas.press("Enter")
    panel = page.locator("#panel")
    await expect(panel.get_by_role("heading", level=2)).to_contain_text("node-60")
    await expect(panel).to_contain_text("1.20 ± 0.10 tasks")
    # No scheduler is on this stage: said in a line.
    await expect(panel).to_contain_text("No answer from the scheduler: no service answers.", timeout=WITHIN_MS)
    await page.keyboard.press("Escape")
    await expect(panel.get_by_role("heading", level=2)).to_have_text("The cluster")
    await page.go_back()
    await expect(panel.get_by_role("heading", level=2)).to_contain_text("node-60")
    await page.keyboard.press("/")
    await page.keyboard.type("node-17")
    await page.keyboard.press("Enter")
    await expect(panel.get_by_role("heading", level=2)).to_contain_text("node-17")
    await page.keyboard.press("Escape")
    await expect(page.locator("#find-text")).not_to_be_focused()
    await page.keyboard.press("m")
    await expect(page.get_by_role("radio", name="CPU")).to_have_attribute("aria-checked", "true")
    await page.keyboard.press("t")
    await expect(page.locator("html")).to_have_attribute("data-theme", "light")
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_be_hidden()


async def test_focus_is_led_to_what_is_opened_and_back(page: browsers.Page, stage: web_site.Stage) -> None:
    await opened(page, stage)
    cpu = page.get_by_role("radio", name="CPU")
    await page.get_by_role("radio", name="Fullest").focus()
    await page.keyboard.press("ArrowRight")
    await expect(cpu).to_have_attribute("aria-checked", "true")
    await expect(cpu).to_be_focused()
    # One stop for Tab, as radio buttons are: the next is the map.
    await page.keyboard.press("Tab")
    await expect(page.locator("#map")).to_be_focused()
    row = page.locator("#flow-list button").first
    await paused_at(page, row)
    await row.focus()
    await page.keyboard.press("Enter")
    await expect(page.locator("#panel")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(row).to_be_focused()
    # What leads past the map closes nothing.
    await page.goto(f"{stage.url}#node/node-4")
    await page.locator(".skip").focus()
    await page.keyboard.press("Enter")
    await expect(page.locator("#panel")).to_be_focused()
    await expect(page.locator("#panel").get_by_role("heading", level=2)).to_contain_text("node-4")


async def test_the_last_quarter_of_an_hour_is_shown_at_once_and_a_moment_is_a_link(
    page: browsers.Page, stage: web_site.Stage
) -> None:
    await opened(page, stage)
    card = page.locator("#history-card")
    await expect(card).to_contain_text("27 Pods wait for a node, the first for 42 s")
    await expect(card).to_contain_text("no Pod waits for longer than 10 s any more")
    await card.get_by_role("button", name=re.compile("node-3 no longer reports")).click()
    await expect(page).to_have_url(re.compile(r"\?at=20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$"))
    shown = card.locator(".lead")
    await expect(shown).to_contain_text("27 Pods waited, the first for 42 s")
    words, link = await shown.inner_text(), page.url
    # The link shows the same moment, also with a node open.
    await page.goto("about:blank")
    await page.goto(f"{link}#node/node-4")
    await expect(shown).to_have_text(words)
    await page.keyboard.press("Escape")
    await expect(page.locator("#panel").get_by_role("heading", level=2)).to_have_text("The cluster")
    await expect(shown).to_have_text(words)
    await card.get_by_role("button", name="Back to now").click()
    await expect(page).to_have_url(re.compile(r"/(#.*)?$"))
    for at, said in (
        ("2020-01-02T12:00:00Z", re.compile(r"Nothing is kept of 2020-01-02 \d\d:00:00: history goes back to \d\d:")),
        ("noon", "cannot be read"),
    ):
        await page.goto(f"{stage.url}?at={at}")
        await expect(shown).to_contain_text(said)
        # Who follows a link to a moment sees it first.
        await expect(card.get_by_role("heading", level=2)).to_be_in_viewport()


# A browser whose clock is two hours ahead of the cluster's.
AHEAD = """
globalThis.TrueDate = Date;
globalThis.Date = class extends TrueDate {
  constructor(...given) { if (given.length) super(...given); else super(Date.now()); }
  static now() { return TrueDate.now() + 7_200_000; }
};
"""


async def test_with_a_clock_that_differs_everything_is_at_its_place_and_a_link_has_the_clusters_time(
    page: browsers.Page, stage: web_site.Stage
) -> None:
    await page.add_init_script(AHEAD)
    await opened(page, stage)
    card = page.locator("#history-card")
    said = "The scheduler's clock is 2 h behind this browser's, by which all times here are."
    await expect(card).to_contain_text(said, timeout=WITHIN_MS)
    await expect(page.locator("#sum-placed")).to_have_text(re.compile(r"^[1-9]\d*(\.\d)?/s$"))
    true_hour = int(await page.evaluate("new globalThis.TrueDate().getHours()"))
    shown = await page.locator("#flow-list time").all_inner_texts()
    assert {(int(each[:2]) - true_hour) % 24 for each in shown} <= {1, 2, 3}, f"{shown} are by this browser's clock"
    await card.get_by_role("button", name=re.compile("node-3 no longer reports")).click()
    await expect(card.locator(".lead")).to_contain_text("27 Pods waited, the first for 42 s")
    at = re.search(r"\?at=([^#]*)", page.url)
    assert at is not None
    ago_s = time.time() - datetime.datetime.fromisoformat(at[1]).timestamp()
    assert 0.0 < ago_s < 3000.0, f"{at[1]} is by the cluster's clock"
    link = page.url
    await page.goto("about:blank")
    await page.goto(link)
    await expect(card.locator(".lead")).to_contain_text("27 Pods waited, the first for 42 s", timeout=WITHIN_MS)


async def test_what_is_printed_is_light_and_states_the_cluster_and_the_time(
    page: browsers.Page, stage: web_site.Stage
) -> None:
    await opened(page, stage)
    before = await page.evaluate("getComputedStyle(document.body).backgroundColor")
    light = "[document.documentElement.dataset.theme, document.querySelector('#printed').textContent]"
    await page.evaluate(f"addEventListener('beforeprint', () => {{ globalThis.seen = {light}; }})")
    assert (await page.pdf(format="A4")).startswith(b"%PDF")
    theme, said = await page.evaluate("seen")
    assert theme == "light"
    assert re.fullmatch(r"CARICO, cluster stage, 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d", said)
    await expect(page.locator("#printed")).to_be_empty()
    assert await page.evaluate("getComputedStyle(document.body).backgroundColor") == before
    await page.emulate_media(media="print")
    await expect(page.locator("#find")).to_be_hidden()
    await expect(page.locator("#pause")).to_be_hidden()


async def test_the_dimensions_are_offered_when_the_past_arrives_before_any_advertisement(
    page: browsers.Page, stage: web_site.Stage
) -> None:
    try:
        for node in stage.fleet.nodes:
            node.is_silent = True
        await page.goto(stage.url)
        await expect(page.locator("#history-card")).to_contain_text("no Pod waits for longer than 10 s any more")
    finally:
        for node in stage.fleet.nodes:
            node.is_silent = False
    await expect(page.locator("#sum-nodes-sub")).to_have_text("all fresh", timeout=WITHIN_MS)
    await expect(page.get_by_role("radio", name="CPU")).to_be_visible()


async def test_waiting_pods_are_grouped_by_reason_and_each_opens(page: browsers.Page, stage: web_site.Stage) -> None:
    await opened(page, stage)
    await page.keyboard.press("p")
    answer = {
        "pods": 14,
        "reasons": [
            {"reason": "at capacity", "pods": 12, "oldest_s": 42.0,
             "named": [{"namespace": "default", "pod": f"job-{i}", "waited_s": 42.0 - i} for i in range(10)]},
            {"reason": "tainted", "pods": 2, "oldest_s": 3.0,
             "named": [{"namespace": "shop", "pod": "web-1", "waited_s": 3.0}]},
        ],
    }  # fmt: skip
    await page.evaluate(
        """async (answer) => {
          const { WaitingList } = await import("/waiting_list.js");
          const list = new WaitingList({ openPod: (key) => (location.hash = `pod/${key}`) });
          document.getElementById("history").append(list.root);
          list.draw({ pods: 1, reasons: [] });
          list.draw(answer);
        }""",
        answer,
    )
    found = page.locator("#history .waits")
    await expect(found).to_contain_text("Waiting: 14 Pods")
    await expect(found).to_contain_text("12 Pods: at capacity the first for 42 s")
    await found.get_by_text("2 Pods: tainted").click()
    await expect(found).to_contain_text("and 1 more")
    await found.get_by_role("button", name="shop/web-1").click()
    await expect(page.locator("#panel").get_by_role("heading", level=2)).to_contain_text("web-1")


async def test_schedulers_that_share_the_work_are_listed_while_they_do(
    page: browsers.Page, stage: web_site.Stage
) -> None:
    await opened(page, stage)
    listed = page.locator("#panel .members")
    await expect(listed).to_be_hidden()
    one = records.HEARTBEAT_REPORT
    address = stage.server.url.removeprefix("nats://")
    client = await nats.connect(web_access.url(address, arrangements.LOCAL, web_site.PASSWORD))
    try:
        async with asyncio.timeout(WITHIN_MS / 1e3):
            while not await listed.is_visible():
                await client.publish(subjects.member(one.replica), wire.encode_heartbeat(one))
                await asyncio.sleep(0.2)
        await expect(listed.locator("li span").first).to_have_text("scheduler")
        await expect(listed).to_contain_text("100 % of the claims, 12 conflicts, 3 waits")
    finally:
        await client.close()
    # It has fallen silent.
    await expect(listed).to_be_hidden()


async def test_the_pods_of_a_node_are_asked_for_again_where_one_has_replaced_another(
    page: browsers.Page, stage: web_site.Stage
) -> None:
    node, named, answered = stage.fleet.nodes[6], "one", 0
    node.running = frozenset({"uid-one"})
    address = stage.server.url.removeprefix("nats://")
    client = await nats.connect(web_access.url(address, arrangements.LOCAL, web_site.PASSWORD))

    async def reply(message: nats.aio.msg.Msg) -> None:
        nonlocal answered
        answered += 1
        pods = [{"namespace": "default", "pod": named, "uid": f"uid-{named}", "class": "app/default/web"}]
        answer = {
            "known": True, "free": 1.0, "reserved": 0, "reserved_by": [], "placed": 1, "baseline_pods": 0, "pods": pods,
            "refused_by": None, "trust": {"is_suspect": False}, "bounds": [], "history": None,
        }  # fmt: skip
        await message.respond(json.dumps(answer).encode())

    try:
        await client.subscribe(subjects.query("scheduler", "node.explain"), cb=reply)
        await opened(page, stage, f"#node/{node.name}")
        shown = page.locator("#panel li button", has_text="app/default/web")
        await expect(shown).to_contain_text("default/one", timeout=WITHIN_MS)
        await expect(shown).to_contain_text("no reading yet")
        loads = {"uid-one": pod_telemetry.PodLoad("app/default/web", 0.25, 0.0, 8.1e6)}
        await stage.fleet.say_loads(node.name, 1, loads)
        await expect(shown).to_contain_text("250m CPU, 8.1 MB")
        await expect(page.locator("#panel")).to_contain_text("1 Pod runs here", timeout=WITHIN_MS)
        # From here on the page knows of which Pods its list is.
        before = answered
        await page.locator("#panel button", has_text="Ask again").click()
        await waiting.until(lambda: answered > before)
        named, node.running = "other", frozenset({"uid-other"})
        await expect(shown).to_contain_text("default/other", timeout=WITHIN_MS)
        await expect(shown).to_contain_text("no reading yet")
        # Its agent says what it uses before it reports again.
        await stage.fleet.answer_loads(node.name, {"uid-other": loads["uid-one"]})
        await page.reload()
        await expect(shown).to_contain_text("250m CPU, 8.1 MB", timeout=WITHIN_MS)
    finally:
        node.running = frozenset()
        await client.close()


async def test_traffic_and_moves_are_shown_where_a_rescheduler_answers(
    page: browsers.Page, stage: web_site.Stage
) -> None:
    await opened(page, stage)
    shown = page.locator("#panel .traffic")
    await expect(shown).to_be_hidden()
    links = [{"one": f"node-{number}", "other": f"node-{number + 1}", "bytes_per_s": 1e6 * number} for number in (9, 5)]
    move = {"pod": "default/<b>web", "from": "node-5", "to": "node-6", "state": "waiting", "why": "", "age_s": 3.0}
    answers = {
        "traffic.list": {"has_traffic": True, "between_bytes": 14e6, "within_bytes": 14e6, "links": links},
        "moves.list": {"current": {**move, "took_s": None}, "ended": [{**move, "took_s": 1.0, "state": "moved"}]},
    }
    address = stage.server.url.removeprefix("nats://")
    client = await nats.connect(web_access.url(address, arrangements.LOCAL, web_site.PASSWORD))
    try:
        for verb, answer in answers.items():

            async def reply(message: nats.aio.msg.Msg, answer: object = answer) -> None:
                await message.respond(json.dumps(answer).encode())

            await client.subscribe(subjects.query("rescheduler", verb), cb=reply)
        # It was asked before, without an answer: again when the page is loaded.
        await page.reload()
        await expect(shown).to_contain_text("14.0 MB/s between nodes, 50 % of all traffic stays on a node")
        await expect(shown).to_contain_text("node-9 ↔ node-10")
        await expect(shown).to_contain_text("default/<b>web: node-5 → node-6")
        await expect(shown).to_contain_text("under way, for 3 s")
        await expect(shown).to_contain_text("moved, 2 s ago")
        drawn = await shown.locator("canvas").evaluate(
            "(it) => it.getContext('2d').getImageData(0, 0, it.width, it.height).data.some((x) => x > 0)"
        )
        assert drawn
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    finally:
        await client.close()
    # It has gone.
    await expect(shown).to_be_hidden()


async def test_an_invalid_page_address_opens_nothing(page: browsers.Page, stage: web_site.Stage) -> None:
    await opened(page, stage, "#node/%")
    await expect(page.locator("#panel").get_by_role("heading", level=2)).to_contain_text("%")
    await page.keyboard.press("Escape")
    await expect(page.locator("#panel").get_by_role("heading", level=2)).to_have_text("The cluster")


async def test_no_number_stands_bare(page: browsers.Page, stage: web_site.Stage) -> None:
    await opened(page, stage, "#node/node-3")
    await expect(page.locator("#panel table")).to_be_attached(timeout=WITHIN_MS)
    decided = page.locator("#flow-list button").first
    # What moves with each decision is never still for a click where frames are slow.
    await paused_at(page, decided)
    await decided.click()
    await expect(page.locator("#panel table")).to_be_attached(timeout=WITHIN_MS)
    words = await page.locator("body").inner_text()
    # As programs write numbers: 1.015e+09, 0.30000000000000004, 433000000.
    assert re.findall(r"\d[.\d]*e[+-]?\d+|\d+\.\d{3,}|(?<![-\d])\d{7,}", words) == []
    assert "NaN" not in words and "undefined" not in words and "null" not in words


async def test_who_wants_no_motion_sees_none(page: browsers.Page, stage: web_site.Stage) -> None:
    await page.emulate_media(reduced_motion="reduce")
    await opened(page, stage)
    moving = await page.evaluate(
        "[...document.querySelectorAll('*')].filter((e) => { const s = getComputedStyle(e); return"
        " s.animationName !== 'none' || parseFloat(s.transitionDuration) > 0 || s.scrollBehavior === 'smooth'; })"
        ".map((e) => e.outerHTML)"
    )
    assert moving == []


async def test_a_decision_is_explained_by_a_click(page: browsers.Page, stage: web_site.Stage) -> None:
    await opened(page, stage)
    found = page.locator('#flow-list [data-outcome="unschedulable"] button').first
    await paused_at(page, found)
    await found.click()
    panel = page.locator("#panel")
    await expect(panel).to_contain_text("0/60 nodes fit: 60 at capacity")
    await expect(panel).to_contain_text("Refused: 60 by capacity.")
    await expect(panel.get_by_role("row")).to_have_count(5)
    await panel.get_by_role("row").nth(1).get_by_role("button").click()
    await expect(panel.get_by_role("heading", level=2)).to_contain_text("node-")


async def test_a_pod_that_can_never_fit_is_said_so(page: browsers.Page, stage: web_site.Stage) -> None:
    desk = answering.Desk(objects.make_node("node-1", labels={"kubernetes.io/hostname": "node-1"}))
    desk.hear("node-1")
    selector = {"kubernetes.io/hostnam": "node-1"}
    desk.state.put_pod(objects.make_pod("huge", request_bytes=2.0**40, node_selector=selector), answering.NOW_S)

    async def reply(message: nats.aio.msg.Msg) -> None:
        await message.respond(await desk.answers.pod_explain(message.data))

    address = stage.server.url.removeprefix("nats://")
    client = await nats.connect(web_access.url(address, arrangements.LOCAL, web_site.PASSWORD))
    try:
        await client.subscribe(subjects.query("scheduler", "pod.explain"), cb=reply)
        await opened(page, stage, "#pod/default/huge")
        panel = page.locator("#panel")
        await expect(panel).to_contain_text("waiting, and can never fit as it is: 0/1 nodes fit")
        await expect(panel).to_contain_text("No node has 1 Ti of memory (node-1 has the most: ")
        await expect(panel).to_contain_text("), nor the label kubernetes.io/hostnam.")
        await expect(panel).to_contain_text("did you mean kubernetes.io/hostname?")
        await expect(panel).to_contain_text("; no Pod waits before it.")
    finally:
        await client.close()


async def test_a_node_that_falls_silent_is_seen(page: browsers.Page, stage: web_site.Stage) -> None:
    await opened(page, stage, "#node/node-5")
    chip = page.locator("#panel .chip").first
    await expect(chip).to_have_text("fresh", timeout=WITHIN_MS)
    node = stage.fleet.nodes[4]
    try:
        node.is_silent = True
        # Stale for five seconds, which a browser that stalls may not draw, and absent from then on.
        await expect(chip).to_have_text(re.compile("stale|absent"), timeout=WITHIN_MS)
        await expect(page.locator("#sum-nodes-sub")).to_contain_text(re.compile("1 (stale|absent)"), timeout=WITHIN_MS)
    finally:
        node.is_silent = False
    await expect(chip).to_have_text("fresh", timeout=WITHIN_MS)


async def test_text_from_the_bus_is_never_read_as_html(page: browsers.Page, stage: web_site.Stage) -> None:
    await opened(page, stage)
    trap = "<img src=x onerror=alert(1)>"
    shown = await page.evaluate(
        """async (trap) => {
          const { el, table } = await import("/dom.js");
          document.getElementById("panel").append(el("p", { id: "trap" }, trap), table(trap, [trap], [[trap]]));
          return [document.getElementById("trap").textContent, document.querySelectorAll("#panel img").length];
        }""",
        trap,
    )
    assert shown == [trap, 0]


async def test_a_bus_that_goes_and_comes_back(page: browsers.Page, stage: web_site.Stage) -> None:
    await opened(page, stage)
    banner = page.get_by_role("alert")
    stage.server.kill()
    try:
        await expect(banner).to_contain_text("The bus does not answer at ws://127.0.0.1:", timeout=WITHIN_MS)
        await expect(banner).to_contain_text(re.compile(r" since \d\d:\d\d:\d\d"))
        await expect(banner).to_contain_text("retrying")
        await expect(page.locator("#bus-state")).to_have_text("away")
        # A value that is no longer reported is unknown, which is not zero.
        await expect(page.locator("#sum-pods")).to_have_text("–", timeout=WITHIN_MS)
        await expect(page.locator("#sum-room-sub")).to_have_text("not known")
        await expect(page.locator("#sum-nodes-sub")).to_have_text("60 absent")
    finally:
        stage.server.start()
    await expect(page.locator("#bus-state")).to_have_text("live", timeout=WITHIN_MS)
    await expect(banner).to_be_hidden()
    await expect(page.locator("#sum-nodes-sub")).to_have_text("all fresh", timeout=WITHIN_MS)


async def test_a_browser_without_websocket_gets_a_message(page: browsers.Page, stage: web_site.Stage) -> None:
    await page.add_init_script("delete globalThis.WebSocket")
    await page.goto(stage.url)
    await expect(page.get_by_role("alert")).to_contain_text("This browser has no WebSocket")


async def test_a_page_server_that_is_away_at_first_is_tried_again(page: browsers.Page, stage: web_site.Stage) -> None:
    await page.route("**/settings.json", lambda route: route.abort())
    await page.goto(stage.url)
    await expect(page.get_by_role("alert")).to_contain_text("This page's server does not answer")
    await page.unroute("**/settings.json")
    await expect(page.locator("#bus-state")).to_have_text("live", timeout=WITHIN_MS)
    await expect(page.get_by_role("alert")).to_be_hidden()


async def test_a_part_of_the_page_that_did_not_arrive_is_fetched_again(
    page: browsers.Page, stage: web_site.Stage
) -> None:
    # As a browser does with all it fetches when a network interface comes or goes.
    await page.route("**/theme.js", lambda route: route.abort())
    await page.goto(stage.url)
    await expect(page.get_by_role("alert")).to_contain_text("A part of this page did not load")
    await page.unroute("**/theme.js")
    await expect(page.locator("#bus-state")).to_have_text("live", timeout=WITHIN_MS)


@pytest.mark.parametrize("width", [360, 768, 1600])
async def test_every_width_is_readable(page: browsers.Page, stage: web_site.Stage, width: int) -> None:
    await page.set_viewport_size({"width": width, "height": 800})
    await opened(page, stage, "#node/node-3")
    await expect(page.locator("#panel table")).to_be_attached(timeout=WITHIN_MS)
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    small = await page.evaluate(
        "[...document.querySelectorAll('body *')].filter((e) => e.childElementCount === 0 && e.textContent.trim()"
        " && parseFloat(getComputedStyle(e).fontSize) < 12).map((e) => e.textContent)"
    )
    assert small == []


@pytest.mark.parametrize("opens", ["", "#node/node-3"])
async def test_neither_column_is_empty_below_the_fold(page: browsers.Page, stage: web_site.Stage, opens: str) -> None:
    await opened(page, stage, opens)
    await expect(page.locator("#panel canvas").first).to_be_visible(timeout=WITHIN_MS)
    await expect(page.locator("#fan")).to_be_visible(timeout=WITHIN_MS)
    columns = await page.evaluate(
        "Object.values([...document.querySelectorAll('main > .card')].map((e) => e.getBoundingClientRect())"
        ".reduce((ends, { left, bottom }) => ({ ...ends, [left]: Math.max(ends[left] || 0, bottom) }), {}))"
    )
    assert len(columns) == 2
    assert min(columns) > 0.7 * max(columns), columns


@pytest.mark.parametrize("scheme", ["dark", "light"])
async def test_the_page_has_contrast_and_accessible_names(
    page: browsers.Page, stage: web_site.Stage, scheme: str
) -> None:
    await page.emulate_media(color_scheme="light" if scheme == "light" else "dark")
    await opened(page, stage)
    contrasts = json.loads(await page.evaluate(CONTRASTS))
    # https://www.w3.org/TR/WCAG22/#contrast-minimum ; what is only drawn needs 3.
    assert {
        name: ratio for name, ratio in contrasts.items() if ratio < (3.0 if name.startswith("--line") else 4.5)
    } == {}
    unnamed = await page.evaluate(
        "[...document.querySelectorAll('button, input, canvas, [role]')].filter((e) => e.offsetParent"
        " && !e.getAttribute('aria-label') && !e.getAttribute('aria-labelledby') && !e.labels?.length"
        " && !e.textContent.trim()).map((e) => e.outerHTML)"
    )
    assert unnamed == []


CONTRASTS = """(() => {
  const style = getComputedStyle(document.documentElement);
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const light = (colour) => {
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((x) => {
      const c = x / 255;
      return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const read = (name) => light(style.getPropertyValue(name));
  const found = {};
  // What words stand on: a card, the page's ground, which is also what is pointed at.
  const ratio = (name, ground) => {
    const [a, b] = [read(name), read(ground)].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  };
  const lines = [1, 2, 3, 4, 5, 6].map((i) => `--line-${i}`);
  for (const name of ["--ink", "--soft", "--accent", "--warm", "--hot", ...lines]) {
    found[name] = Math.min(ratio(name, "--card"), ratio(name, "--ground"));
  }
  // The measure that is chosen.
  found["--ink on --rim"] = ratio("--ink", "--rim");
  return JSON.stringify(found);
})()"""
