"""Tests the page of `dyno report`: its structure, that nothing in a record becomes markup and nothing leaves
the page, and, where there is a Chromium, that sorting, filtering and the viewers work without an error."""
import base64
import csv
import functools
import html.parser
import json
import os
import random
import re
import shutil
import subprocess
import tempfile

from cases import Skip, run_all

DYNO = os.path.join(os.environ["DYNO_BUILD"], "dyno")
TINY = "--layers 2 --d-model 16 --d-ff 32 --heads 2 --vocab 64".split()
EVIL = '<script>alert(1)</script>"\'&<img src=x onerror=alert(2)></title></script><!--'
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
MOST_BYTES = 3_000_000
VOID = {"meta", "link", "input", "br", "img", "hr"}


def dyno(*words, code=0):
    result = subprocess.run([DYNO, *words], text=True, capture_output=True, check=False,
                            env=dict(os.environ, DYNO_DEVICE="cpu"), timeout=300)
    assert result.returncode == code, (words, result.returncode, result.stderr)
    return result.stdout + result.stderr


class Page(html.parser.HTMLParser):
    """Tags that were opened, and whether each was closed."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.ids, self.links, self.open, self.texts = [], [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append(tag)
        assert not any(name.startswith("on") for name in attributes), attributes
        for name in ("href", "src", "action", "data"):
            if name in attributes:
                self.links.append(attributes[name])
        if "id" in attributes:
            self.ids.append(attributes["id"])
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (tag, self.open[-3:])
        self.open.pop()

    def handle_data(self, data):
        self.texts.append(data)


@functools.cache
def measured():
    """Runs of several verbs, which no case changes."""
    held = tempfile.TemporaryDirectory()
    folder = held.name
    dyno("bench", *TINY, "--context", "4,8,16", "--mode", "eager,compiled", "--steps", "3", "--pass",
         "forward,step", "--breakdown", "--out", f"{folder}/steps")
    dyno("profile", *TINY, "--context", "8", "--steps", "2", "--pass", "step", "--timeline", "--out",
         f"{folder}/profile")
    dyno("memory", *TINY, "--context", "8", "--out", f"{folder}/memory")
    dyno("attention", "--impl", "naive,flash", "--seq", "16,32,64", "--head-dim", "8", "--batch", "1",
         "--reps", "3", "--out", f"{folder}/attention")
    return held


def measure(folder):
    shutil.copytree(measured().name, folder, dirs_exist_ok=True)


def page_of(folder):
    dyno("report", folder)
    with open(f"{folder}/report.html", encoding="utf-8") as file:
        return file.read()


def check_closed(page):
    """Nothing that a browser would fetch."""
    parsed = Page(page)
    assert all(link.startswith("#") for link in parsed.links), parsed.links
    assert not re.search(r"https?://|//[a-z]+\.|@import|url\(", page), re.search(r"https?://.{30}|url\(.{30}", page)
    assert "default-src 'none'" in page
    return parsed


def a_page_has_tables_plots_findings_and_the_samples():
    with tempfile.TemporaryDirectory() as folder:
        measure(folder)
        page = page_of(folder)
        parsed = check_closed(page)
        assert len(page) < MOST_BYTES, len(page)
        assert parsed.tags.count("table") >= 3 and parsed.tags.count("svg") >= 2, parsed.tags.count("svg")
        assert len(parsed.ids) == len(set(parsed.ids))
        assert {link[1:] for link in parsed.links} <= set(parsed.ids)
        text = " ".join(parsed.texts)
        for question in ("Which machine?", "How fast?", "How far from its limits?", "What does not fit?",
                         "What to speed up next?"):
            assert question in text, question
        records = json.loads(page.split('id="records">')[1].split("</script>")[0])
        with open(f"{folder}/steps/run.json", encoding="utf-8") as file:
            run = json.load(file)
        kept = next(record for record in records if record["verb"] == "bench")
        assert [cell["samples"] for cell in kept["cells"]] == [cell["samples"] for cell in run["cells"]]
        best = max(cell["metrics"]["tokens"]["value"] / sorted(cell["samples"]["step"]["values"])[1] * 1e9
                   for cell in run["cells"] if cell["parameters"]["pass"] == "step")
        assert f"makes {best:.0f} tokens/s" in text, best
        for kind in ("md", "tex"):  # they begin with the same answers
            dyno("report", folder, "-o", f"{folder}/x.{kind}")
            with open(f"{folder}/x.{kind}", encoding="utf-8") as file:
                begin = file.read().split({"md": "\n## ", "tex": "\\section"}[kind])[0]
            for part in ("Which machine?", "What to speed up next?", f"makes {best:.0f} tokens/s"):
                assert part in begin, (kind, part)


PLOTS = {
    "warm": (["bench", *TINY, "--context", "8", "--pass", "step", "--steps", "3", "--warmup", "0,2"],
             ["bench: every step in its order"]),
    "math": (["bench", *TINY, "--context", "8", "--pass", "forward,step", "--steps", "3", "--precision", "fp32,bf16"],
             ["bench: time, forward", "bench: time, step"]),
    "recompute": (["bench", *TINY, "--context", "8", "--pass", "step", "--steps", "3", "--recompute", "none,every:1"],
                  ["bench: time against peak memory"]),
    "ranks": (["bench", *TINY, "--context", "8", "--pass", "step", "--steps", "3", "--ranks", "2", "--parallel",
               "ddp-flat,zero1"],
              ["bench: what a step consists of", "bench: memory of rank 0 by kind, at the fullest moment of the step"]),
    "fits": (["memory", "--model", "small", "--context", "128,256", "--part", "grid"],
             ["memory: peak memory over the context"]),
    "collectives": (["allreduce", "--ranks", "2", "--bytes", "10kB,100kB", "--reps", "3"],
                    ["allreduce: bus bandwidth over the bytes", "allreduce: time over the bytes"]),
    "scale": (["scale", "--model", "small", "--target", "h200", "--ranks", "2,8", "--inside", "450GB/s", "--across",
               "50GB/s"],
              ["scale: step time over the ranks", "scale: the most ranks before communication dominates"]),
}


def every_experiment_has_its_plots():
    with tempfile.TemporaryDirectory() as folder:
        for name, (words, _) in PLOTS.items():
            dyno(*words, "--out", f"{folder}/{name}")
        page = page_of(folder)
        check_closed(page)
        sections = re.findall(r"<section id=.s\d.*?</section>", page, re.DOTALL)
        for name, (_, titles) in PLOTS.items():
            section = next(part for part in sections if f": {name}</h2>" in part)
            assert re.findall("<figcaption>(.*?)</figcaption>", section) == titles, name
            for drawing in re.findall("<svg.*?</svg>", section, re.DOTALL):
                assert 'role="img" aria-label="' in drawing and re.search(r"<title>.*?: .*?</title>", drawing), name
                assert not re.search(r'"-?(nan|inf)', drawing), name
        if CHROMIUM:
            _, console = browse(page)
            assert "CONSOLE" not in console, console
        dyno("report", folder, "-o", f"{folder}/x.tex")
        with open(f"{folder}/x.tex", encoding="utf-8") as file:
            tex = file.read()
        begun, ended = re.findall(r"\\begin\{(\w+)\}", tex), re.findall(r"\\end\{(\w+)\}", tex)
        assert sorted(begun) == sorted(ended)
        assert {"axis", "semilogyaxis", "loglogaxis"} <= set(begun), set(begun)


def what_to_speed_up_next_is_the_first_row_of_its_table():
    shown = dyno("show", f"{measured().name}/profile", "--format", "csv")
    table = next(part for part in shown.split("\n\n") if part.startswith("model") and "above floor ms" in part.splitlines()[0]
                 and "step gains %" in part.splitlines()[0])
    first = next(csv.DictReader(table.splitlines()))
    text = " ".join(Page(page_of(measured().name)).texts)
    said = (f"{first['op']} in {first['scope']} ({first['phase']}, {first['launches']} "
            f"launch{'es' if int(first['launches']) > 1 else ''}) takes "
            f"{float(first['above floor ms']):.2f} ms more")
    assert said in text, said


def evil(value):
    """The same record with markup in every text and in every name."""
    if isinstance(value, dict):
        return {key: evil(item) for key, item in value.items()}
    if isinstance(value, list):
        return [evil(item) for item in value]
    return value + EVIL if isinstance(value, str) else value


def hostile_records_are_text():
    with tempfile.TemporaryDirectory() as folder:
        measure(folder)
        for name in ("steps", "memory", "attention", "profile"):
            path = f"{folder}/{name}/run.json"
            with open(path, encoding="utf-8") as file:
                run = json.load(file)
            for cell in run["cells"]:
                cell["parameters"] = {key + EVIL if key == "seed" else key: evil(value)
                                      for key, value in cell["parameters"].items()}
                cell["reason"] = EVIL
                cell["breakdowns"] = evil(cell.get("breakdowns", {}))
            run["argv"] = evil(run["argv"])
            run["environment"] = {key + EVIL: evil(value) for key, value in run["environment"].items()}
            with open(path, "w", encoding="utf-8") as file:
                json.dump(run, file)
        page = page_of(folder)
        parsed = Page(page)
        assert parsed.tags.count("script") == 2 and "img" not in parsed.tags, parsed.tags.count("script")
        assert page.lower().count("<script") == 2 and "<img" not in page
        for ending in ("md", "tex"):
            dyno("report", folder, "-o", f"{folder}/x.{ending}")
            with open(f"{folder}/x.{ending}", encoding="utf-8") as file:
                assert re.search(r"(?<!\\)<script", file.read()) is None, ending
        if CHROMIUM:
            _, console = browse(page)
            assert "CONSOLE" not in console, console


def places(value, path=()):
    """Every place in a record."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, path + (key,))


def wrong_types_are_refused_or_shown_as_text():
    wrong = [None, True, [], {}, "x", EVIL, -1, 1e308, 2 ** 62, [[[]]], {"rows": [{}]}]
    numbers = random.Random(17)
    with tempfile.TemporaryDirectory() as folder:
        for i in range(32):
            name = ("profile", "memory", "attention", "steps")[i % 4]
            with open(f"{measured().name}/{name}/run.json", encoding="utf-8") as file:
                run = json.load(file)
            path = numbers.choice([path for path in places(run) if path])
            place = functools.reduce(lambda value, key: value[key], path[:-1], run)
            place[path[-1]] = numbers.choice(wrong)
            with open(f"{folder}/run.json", "w", encoding="utf-8") as file:
                json.dump(run, file)
            result = subprocess.run([DYNO, "report", folder], text=True, capture_output=True, check=False, timeout=120)
            assert result.returncode in (0, 1, 2), (name, path, place[path[-1]], result)
            if result.returncode:
                assert "run.json" in result.stderr, (name, path, result.stderr)
            else:
                with open(f"{folder}/report.html", encoding="utf-8") as file:
                    assert Page(file.read()).tags.count("script") == 2, (name, path)
        with open(f"{folder}/run.json", "wb") as file:
            file.truncate(2 ** 30)  # a gigabyte
        assert "the limit is" in dyno("report", folder, code=2)


def wrong_files_get_a_clear_error():
    with tempfile.TemporaryDirectory() as folder:
        assert "holds no run" in dyno("report", folder, code=1)
        assert "nowhere" in dyno("report", f"{folder}/nowhere", code=1)
        with open(f"{folder}/run.json", "w", encoding="utf-8") as file:
            file.write('{"format": "dyno-run", "version": 1, "cells": 7}')
        assert "run.json" in dyno("report", folder, code=1)
        os.remove(f"{folder}/run.json")
        measure(folder)
        assert ".html, .md, .tex or .pdf" in dyno("report", folder, "-o", "x.doc", code=2)
        dyno("report", folder, "-o", f"{folder}/page.html")
        dyno("report", folder, "-o", f"{folder}/page.html", code=2)  # it is there
        dyno("report", folder, "-o", f"{folder}/page.html", "--force")
        assert not [name for name in os.listdir(folder) if "tmp" in name]


def latex_is_balanced():
    with tempfile.TemporaryDirectory() as folder:
        measure(folder)
        dyno("report", folder, "-o", f"{folder}/x.tex")
        with open(f"{folder}/x.tex", encoding="utf-8") as file:
            tex = file.read()
        assert "\\toprule" in tex and "\\begin{loglogaxis}" in tex
        begun, ended = re.findall(r"\\begin\{(\w+)\}", tex), re.findall(r"\\end\{(\w+)\}", tex)
        assert sorted(begun) == sorted(ended)
        plain = re.sub(r"\\[{}]", "", tex)
        assert plain.count("{") == plain.count("}")


# ---- in a browser ----

# What is drawn is there when a script goes on: a headless browser on a busy machine may paint no frame for long.
AT_ONCE = "<head><script>window.requestAnimationFrame = (draw) => draw();</script>"

DRIVE = """
<script>
(async () => {
  const result = {};
  const table = [...document.querySelectorAll("table")].find((t) => /median ms/.test(t.tHead.textContent));
  const rows = () => [...table.tBodies[0].rows];
  const head = [...table.tHead.rows[0].cells].findIndex((cell) => /median ms/.test(cell.textContent));
  const values = () => rows().map((row) => row.cells[head].dataset.v).filter(Boolean).map(Number);
  const button = table.tHead.rows[0].cells[head].querySelector("button");
  button.click();
  result.ascending = values().every((v, i, all) => !i || all[i - 1] <= v);
  result.sort = table.tHead.rows[0].cells[head].getAttribute("aria-sort");
  button.click();
  result.descending = values().every((v, i, all) => !i || all[i - 1] >= v);
  const search = [...document.querySelectorAll(".tools input")].find((i) => i.parentElement.nextElementSibling === table.parentElement);
  search.value = "compiled";
  search.dispatchEvent(new Event("input"));
  result.filtered = rows().filter((row) => !row.hidden).length;
  result.all = rows().length;
  result.right = rows().filter((row) => !row.hidden).every((row) => /compiled/.test(row.textContent));
  result.viewers = [...document.querySelectorAll(".viewer")].map((v) => [v.dataset.viewer, v.hidden]);
  const canvas = document.querySelector("[data-viewer=memory] canvas");
  if (canvas) {
    await new Promise((done) => setTimeout(done, 300));
    canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight" }));
    result.said = document.querySelector("[data-viewer=memory] [role=status]").textContent;
    result.alive = document.querySelectorAll("[data-viewer=memory] li").length;
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    result.drawn = pixels.some((value) => value);
  }
  const lane = document.querySelector("[data-viewer=timeline] canvas");
  if (lane) {
    lane.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight" }));
    lane.dispatchEvent(new KeyboardEvent("keydown", { key: "+" }));
    result.launch = document.querySelector("[data-viewer=timeline] [role=status]").textContent;
  }
  result.resources = performance.getEntriesByType("resource").length;
  document.body.append(Object.assign(document.createElement("pre"), { id: "result", textContent: JSON.stringify(result) }));
})();
</script></body>"""


def browse(page, is_timed=False):
    """The page's DOM after its scripts have run, and what Chromium logged; by the real clock where timed."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "page.html")
        with open(path, "w", encoding="utf-8") as file:
            file.write(page)
        result = subprocess.run(
            [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/profile",
             "--enable-logging=stderr", *([] if is_timed else ["--virtual-time-budget=5000"]),
             "--window-size=1280,900", "--dump-dom", f"file://{path}"], text=True, capture_output=True, check=False, timeout=180)
        return result.stdout, "\n".join(line for line in result.stderr.splitlines() if "CONSOLE" in line)


def a_browser_sorts_filters_and_draws_without_an_error():
    if not CHROMIUM:
        raise Skip("it cannot be tested here: there is no Chromium")
    with tempfile.TemporaryDirectory() as folder:
        measure(folder)
        page = page_of(folder).replace("</body>", DRIVE).replace("<head>", AT_ONCE)
        dom, console = browse(page)
    assert not console, console
    result = json.loads(re.search(r'<pre id="result">(.*?)</pre>', dom, re.DOTALL).group(1)
                        .replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    assert result["ascending"] and result["descending"] and result["sort"] == "ascending", result
    assert 0 < result["filtered"] < result["all"], result
    assert result["right"], result
    assert ["memory", False] in result["viewers"] and ["flame", False] in result["viewers"], result
    assert result["drawn"] and "alive" in result["said"] and result["alive"] > 3, result
    assert ["timeline", False] in result["viewers"] and "launch 1 of" in result["launch"], result
    assert "forward" in result["launch"] and "alive" in result["launch"], result
    assert result["resources"] == 0, result


def varints(data):
    value = shift = 0
    for byte in base64.b64decode(data):
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield value
            value = shift = 0


def zigzag(value):
    return -(value + 1) // 2 if value % 2 else value // 2


def unpack(launches):
    """Rows as run.json has them."""
    rows, steps = [], launches["steps"]
    for lane in launches["lanes"]:
        numbers, end, kind = varints(lane["data"]), 0, -1
        for name, gap, duration in zip(numbers, numbers, numbers):
            kind += 1 + zigzag(name)
            begin = end + zigzag(gap)
            end = begin + duration
            step = max((step for step in steps if step[1] <= begin), key=lambda step: step[1])
            keys = launches["names"][kind]
            rows.append((step[0], begin - step[1], lane["stream"], duration, *keys))
    return sorted(rows)


def the_launches_of_a_page_are_those_of_the_record():
    with tempfile.TemporaryDirectory() as folder:
        measure(folder)
        with open(f"{folder}/profile/run.json", encoding="utf-8") as file:
            cell = json.load(file)["cells"][0]
        page = page_of(folder)
        records = json.loads(page.split('id="records">')[1].split("</script>")[0])
        launches = next(record for record in records if record["verb"] == "profile")["cells"][0]["launches"]
        rows = sorted((step, begin, stream, duration, *row["keys"], alive)
                      for row in cell["breakdowns"]["records"]["rows"]
                      for step, stream, begin, duration, alive in [row["values"]])
        assert unpack(launches) == rows, (len(launches["names"]), len(rows))
        assert launches["kept"] == launches["all"] == len(rows)
        assert max(row[-1] for row in rows) <= cell["metrics"]["peak_bytes"]["value"]


def a_page_stays_small():
    """Of launches that do not fit the first are there, and it is said how many there were."""
    with tempfile.TemporaryDirectory() as folder:
        measure(folder)
        path = f"{folder}/profile/run.json"
        with open(path, encoding="utf-8") as file:
            run = json.load(file)
        table = run["cells"][0]["breakdowns"]["records"]
        one = [row for row in table["rows"] if row["values"][0] == 0]
        table["rows"] = [{"keys": row["keys"], "values": [step, *row["values"][1:3], 10 ** 6 + step % 999, 1]}
                         for step in range(40000 // len(one)) for row in one]
        with open(path, "w", encoding="utf-8") as file:
            json.dump(run, file)
        dyno("report", folder, "-o", f"{folder}/small.html", "--size", "600kB")
        assert os.path.getsize(f"{folder}/small.html") < 600_000, os.path.getsize(f"{folder}/small.html")
        with open(f"{folder}/small.html", encoding="utf-8") as file:
            records = json.loads(file.read().split('id="records">')[1].split("</script>")[0])
        launches = next(record for record in records if record and record["verb"] == "profile")["cells"][0]["launches"]
        assert 100 < launches["kept"] < launches["all"] == len(table["rows"]), launches["kept"]
        dyno("report", folder, "-o", f"{folder}/large.html", "--size", "20MB")
        assert 600_000 < os.path.getsize(f"{folder}/large.html") < 3_000_000
        assert "--size" in dyno("report", folder, "--size", "large", code=2)


def findings_state_what_the_tables_have():
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/suite.json", "w", encoding="utf-8") as file:
            json.dump({"format": "dyno-suite", "version": 1, "name": "findings", "title": "Findings", "experiments": [
                {"name": "sums", "verb": "precision", "arguments": ["accumulation"], "title": "Sums"},
                {"name": "types", "verb": "precision", "arguments": ["policy"], "title": "Types"},
                {"name": "scale", "verb": "scale", "title": "Scale", "flags": {"model": "small", "ranks": "8..64"}},
                {"name": "ranks", "verb": "allreduce", "title": "Ranks",
                 "flags": {"ranks": 2, "bytes": ["64kB", "128kB"], "reps": 3}},
                {"name": "warm", "verb": "bench", "title": "Warm",
                 "flags": {"layers": 1, "d-model": 16, "d-ff": 32, "heads": 2, "vocab": 64, "context": 8, "pass": "step",
                           "steps": 3, "warmup": [0, 2]}}]}, file)
        dyno("suite", f"{folder}/suite.json", "--device", "cpu", "--out", f"{folder}/study")
        dyno("report", f"{folder}/study", "-o", f"{folder}/x.md")
        with open(f"{folder}/x.md", encoding="utf-8") as file:
            text = file.read().replace("\\", "")
        assert "Instead of 10 the sum is 4.0000 in bf16, the worst way, and 10.0001 in fp32, the best." in text, text
        assert "Under bf16 2 of 8 have 16 bits" in text
        said = re.search(r"In a step of (\d+) tokens computing takes longer than communicating up to (\d+) ranks? with "
                         r"([\w+]+)", text)
        assert re.search(rf"\| small \| {said[1]} \| {re.escape(said[3])} \| {said[2]} \|", text), said
        best = max(float(number) for number in re.findall(r"highest bus bandwidth is ([\d.]+) GB/s", text))
        assert f"| {best:.2f} |" in text
        steps = {}
        for part in ("part-01", "part-02"):
            with open(f"{folder}/study/warm/{part}/run.json", encoding="utf-8") as file:
                cell = json.load(file)["cells"][0]
            steps[cell["parameters"]["warmup"]] = cell["samples"]["step"]["values"]
        ratio = steps[0][0] / sorted(steps[2])[1]
        assert f"the first step takes {ratio:.2f} times the median after 2 warm-up steps" in text, ratio
        assert text.count("dyno allreduce --ranks 2 --bytes") == 2, "a command for each part"
        assert "--out" not in text


MILLION = """
<script>
{
  const began = performance.now();
  const canvas = document.querySelector("[data-viewer=timeline] canvas"), frames = [];
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const drawn = context.getImageData(0, 0, canvas.width, canvas.height).data.some((value) => value);
  const shown = performance.now();
  for (let i = 0; i < 41; i++) {
    const start = performance.now();
    canvas.dispatchEvent(new KeyboardEvent("keydown", { key: i < 10 ? "+" : "PageDown" }));
    frames.push(performance.now() - start);
  }
  frames.sort((a, b) => a - b);
  const said = document.querySelector("[data-viewer=timeline] [role=status]").textContent;
  document.body.append(Object.assign(document.createElement("pre"), { id: "result", textContent:
    JSON.stringify({ drawn, shown, median: frames[20], longest: frames[40], said }) }));
}
</script></body>"""


def a_million_launches():
    """1382 steps of 724 launches each, as launches.h packs them."""
    names = [[f"kernel_{i % 40}", f"layers.{i // 24}.attn.q", "forward" if i < 300 else "backward", 10 ** 9 + i * 10 ** 6]
             for i in range(724)]
    rest = b"".join(b"\x00\xc8\x01" + bytes([0x80 | i % 128, 0x80 | (i * 7) % 128, 1]) for i in range(1, 724))
    again = b"\xa7\x0b\xc8\x01\x90\x4e"  # back to the first name: -724 is 1447 as zigzag
    data = b"\x00" + again[2:] + rest + (again + rest) * 1381
    steps = [[i, i * 10 ** 7] for i in range(1382)]
    return {"names": names, "steps": steps, "kept": 724 * 1382, "all": 724 * 1382,
            "lanes": [{"stream": 0, "count": 724 * 1382, "data": base64.b64encode(data).decode()}]}


def a_million_launches_are_drawn():
    """How long that takes is printed: no test asserts a time."""
    if not CHROMIUM:
        raise Skip("it cannot be tested here: there is no Chromium")
    page = page_of(measured().name)
    before, rest = page.split('id="records">')
    records, behind = rest.split("</script>", 1)
    records = json.loads(records)
    next(record for record in records if record["verb"] == "profile")["cells"][0]["launches"] = a_million_launches()
    page = before + 'id="records">' + json.dumps(records).replace("<", "\\u003c") + "</script>" + behind
    dom, console = browse(page.replace("</body>", MILLION).replace("<head>", AT_ONCE), is_timed=True)
    assert not console, console
    result = json.loads(re.search(r'<pre id="result">(.*?)</pre>', dom, re.DOTALL).group(1))
    assert result["drawn"] and result["said"].startswith("1000568 launches of 1382 steps on 1 stream"), result
    print(f"a million launches: first paint {result['shown']:.0f} ms after the page was asked for, a frame "
          f"{result['median']:.1f} ms, the longest {result['longest']:.1f} ms")


run_all(a_page_has_tables_plots_findings_and_the_samples, every_experiment_has_its_plots, what_to_speed_up_next_is_the_first_row_of_its_table,
        the_launches_of_a_page_are_those_of_the_record, a_page_stays_small, findings_state_what_the_tables_have, hostile_records_are_text,
        wrong_types_are_refused_or_shown_as_text, wrong_files_get_a_clear_error, latex_is_balanced,
        a_browser_sorts_filters_and_draws_without_an_error, a_million_launches_are_drawn)
