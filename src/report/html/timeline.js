/* The launches of a profile over time: a lane for each step and stream; pan, zoom, search.

   Times are kept in typed arrays, sorted by begin in each lane. A frame draws at most one box a pixel: the
   first launch that is visible is found by bisection, and after a box that is narrower than a pixel the next
   one is sought a pixel further on. A million launches therefore cost as much as a thousand. */
const timelineViewer = (place, run, page) => {
  const { make, colour, ink, timeText, canvasOf, drawnBy, chooser, cellsWith, columnOf } = page;
  const cells = cellsWith(run, "records");
  if (!cells.length) return;
  const LANE = 26, HEAD = 18;
  const canvas = canvasOf(200), said = make("p", { className: "note" });
  const find = make("input", { type: "search", placeholder: "search launches" });
  find.setAttribute("aria-label", "Launches whose kernel or scope contains this text are highlighted");
  said.setAttribute("role", "status");
  let lanes = [], names = [], length = 1, from = 0, to = 1, chosen = null, found = null;

  /* A name is its kernel, scope and phase: most launches share theirs with others. */
  const lanesOf = (table) => {
    const [step, stream, begin, duration] = ["step", "stream", "begin", "duration"].map((name) => columnOf(table, name));
    const byLane = new Map(), byName = new Map();
    names = [];
    length = 1;
    for (const row of table.rows) {
      const values = row.values, key = `${values[step]}, stream ${values[stream]}`;
      const name = row.keys.join("\n");
      let kind = byName.get(name), lane = byLane.get(key);
      if (kind === undefined) {
        byName.set(name, kind = names.length);
        names.push(row.keys);
      }
      if (!lane) byLane.set(key, lane = { name: `step ${key}`, begin: [], duration: [], kind: [], isSorted: true });
      const at = Number(values[begin]), took = Number(values[duration]), count = lane.begin.length;
      lane.isSorted &&= !count || lane.begin[count - 1] <= at;
      lane.begin.push(at);
      lane.duration.push(took);
      lane.kind.push(kind);
      if (at + took > length) length = at + took;
    }
    lanes = [...byLane.values()].map((lane) => {
      const order = lane.isSorted ? null : Uint32Array.from(lane.begin.keys()).sort((a, b) => lane.begin[a] - lane.begin[b]);
      const pick = (Kind, values) => order ? Kind.from(order, (i) => values[i]) : Kind.from(values);
      return { name: lane.name, begin: pick(Float64Array, lane.begin), duration: pick(Float64Array, lane.duration),
        kind: pick(Uint32Array, lane.kind) };
    });
  };
  /* The first of the lane that ends at `time` or later; launches of a lane hardly overlap. */
  const firstAt = (lane, time) => {
    let low = 0, high = lane.begin.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (lane.begin[middle] + lane.duration[middle] < time) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  const draw = (context, width, height) => {
    const span = (to - from) * length, start = from * length, scale = width / span;
    context.fillStyle = ink();
    const unit = 10 ** Math.floor(Math.log10(span / 4));
    for (let t = Math.ceil(start / unit) * unit; t < start + span; t += unit * Math.ceil(span / unit / 10)) {
      context.fillRect((t - start) * scale, 0, 1, height);
      context.fillText(timeText(t), (t - start) * scale + 3, 12);
    }
    lanes.forEach((lane, number) => {
      const y = HEAD + number * LANE;
      for (let i = firstAt(lane, start); i < lane.begin.length && lane.begin[i] < start + span;) {
        const x = Math.max(0, (lane.begin[i] - start) * scale);
        const wide = (lane.begin[i] + lane.duration[i] - start) * scale - x;
        const kind = lane.kind[i], isFound = found && found[kind];
        context.globalAlpha = found && !isFound ? 0.2 : 1;
        context.fillStyle = colour(kind);
        context.fillRect(x, y, Math.max(1, wide - (wide > 3 ? 1 : 0)), LANE - 8);
        if (wide > 50) {
          context.save();
          context.beginPath();
          context.rect(x, y, wide - 3, LANE - 8);
          context.clip();
          context.globalAlpha = 1;
          context.fillStyle = getComputedStyle(document.body).backgroundColor;
          context.fillText(names[kind][0], x + 3, y + 13);
          context.restore();
        }
        i = wide >= 1 ? i + 1 : Math.max(i + 1, firstAt(lane, start + (Math.floor(x) + 1) / scale));
      }
      context.globalAlpha = 1;
    });
    if (chosen) {
      const lane = lanes[chosen.lane];
      context.strokeStyle = ink();
      context.lineWidth = 2;
      context.strokeRect((lane.begin[chosen.index] - start) * scale, HEAD + chosen.lane * LANE - 2,
        Math.max(2, lane.duration[chosen.index] * scale), LANE - 4);
    }
  };
  const redraw = drawnBy(canvas, draw);
  const tell = () => {
    const lane = lanes[chosen.lane], [kernel, scope, phase] = names[lane.kind[chosen.index]];
    said.textContent = `${lane.name}, launch ${chosen.index + 1} of ${lane.begin.length}: ${kernel}, ${scope}, ${phase}; ` +
      `begins at ${timeText(lane.begin[chosen.index])}, takes ${timeText(lane.duration[chosen.index])}`;
  };
  const choose = (lane, index) => {
    if (!lanes[lane]) return;
    chosen = { lane, index: Math.max(0, Math.min(lanes[lane].begin.length - 1, index)) };
    const at = lanes[lane].begin[chosen.index] / length;
    if (at < from || at > to) pan(at - (from + to) / 2);
    tell();
    redraw();
  };
  const zoom = (factor, middle) => {
    const span = Math.min(1, Math.max(100 / length, (to - from) * factor));
    from = Math.max(0, Math.min(1 - span, middle - (middle - from) / (to - from) * span));
    to = from + span;
    redraw();
  };
  const pan = (by) => {
    const move = Math.max(-from, Math.min(1 - to, by));
    from += move;
    to += move;
    redraw();
  };
  const at = (event) => from + event.offsetX / canvas.clientWidth * (to - from);
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, at(event));
  }, { passive: false });
  canvas.addEventListener("pointermove", (event) => {
    if (event.buttons) pan(-event.movementX / canvas.clientWidth * (to - from));
  });
  canvas.addEventListener("click", (event) => {
    const lane = Math.floor((event.offsetY - HEAD) / LANE);
    if (lanes[lane]) choose(lane, firstAt(lanes[lane], at(event) * length));
  });
  canvas.addEventListener("keydown", (event) => {
    const lane = chosen ? chosen.lane : 0, index = chosen ? chosen.index : 0;
    const keys = { ArrowRight: () => choose(lane, index + 1), ArrowLeft: () => choose(lane, index - 1),
      ArrowDown: () => choose(lane + 1, index), ArrowUp: () => choose(lane - 1, index),
      PageDown: () => pan((to - from) / 2), PageUp: () => pan((from - to) / 2),
      "+": () => zoom(0.8, (from + to) / 2), "-": () => zoom(1.25, (from + to) / 2) };
    if (!(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
  });
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", "Launches over time; arrow keys choose a launch, + and - zoom, Page Up and Page Down pan");
  find.addEventListener("input", () => {
    const words = find.value.toLowerCase();
    found = words ? names.map((keys) => keys.join(" ").toLowerCase().includes(words)) : null;
    redraw();
  });
  const show = (cell) => {
    lanesOf(cell.breakdowns.records);
    canvas.style.height = `${HEAD + lanes.length * LANE + 4}px`;
    from = 0; to = 1; chosen = null; found = null;
    said.textContent = `${lanes.reduce((sum, lane) => sum + lane.begin.length, 0)} launches in ${lanes.length} lanes`;
    redraw();
  };
  place.append(make("h3", { textContent: "Launches over time" }),
    make("div", { className: "tools" }, chooser(cells, show), find), canvas, said);
  place.hidden = false;
  show(cells[0]);
};
