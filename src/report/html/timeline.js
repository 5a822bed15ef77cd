/* The launches of a profile over time: for each stream a row of scopes and a row of launches, the bytes alive
   below; pan, zoom, search. The steps that were traced stand one behind the other.

   Times are kept in typed arrays, in the order of their beginning. A frame draws at most one box a pixel: the
   first launch that is visible is found by bisection, and after a box that is narrower than a pixel the next
   one is sought a pixel further on. A million launches therefore cost as much as a thousand. */
const timelineViewer = (place, run, page) => {
  const { make, colour, ink, timeText, bytesText, canvasOf, drawnBy, chooser, usual } = page;
  const cells = run ? run.cells.filter((cell) => cell.launches && cell.launches.lanes.length) : [];
  if (!cells.length) return;
  const HEAD = 18, SCOPES = 16, LAUNCHES = 20, GAP = 10, MEMORY = 70, BLOCK = 256;
  const canvas = canvasOf(200), said = make("p", { className: "note" });
  const find = make("input", { type: "search", placeholder: "search launches" });
  find.setAttribute("aria-label", "Launches whose kernel or scope contains this text are highlighted");
  said.setAttribute("role", "status");
  let rows = [], lanes = [], names = [], steps = [], memory = null;
  let length = 1, from = 0, to = 1, chosen = null, found = null;

  /* src/report/launches.h has the format. */
  const unpack = ({ stream, count, data }) => {
    const text = atob(data), begin = new Float64Array(count), duration = new Float64Array(count);
    const kind = new Uint32Array(count);
    let at = 0, end = 0, last = -1;
    const varint = () => {
      let byte = text.charCodeAt(at++), value = byte & 127;
      for (let scale = 128; byte > 127; scale *= 128) {
        byte = text.charCodeAt(at++);
        value += (byte & 127) * scale;
      }
      return value;
    };
    const zigzag = () => {
      const value = varint();
      if (value < 2 ** 30) return (value >>> 1) ^ -(value & 1);
      return value % 2 ? -(value + 1) / 2 : value / 2;
    };
    for (let i = 0; i < count; i++) {
      kind[i] = last = last + 1 + zigzag();
      begin[i] = end + zigzag();
      duration[i] = varint();
      end = begin[i] + duration[i];
      if (end > length) length = end;
    }
    return { stream, begin, duration, kind };
  };
  /* Launches of one step that follow one another in the same block of the same phase: "forward layers.3". */
  const scopesOf = (lane) => {
    const labels = names.map(([, scope, phase]) => `${phase} ${scope.split(".").slice(0, 2).join(".")}`.trim());
    const ids = new Map(), idOf = labels.map((label) => ids.get(label) ?? (ids.set(label, ids.size), ids.size - 1));
    const begin = [], duration = [], kind = [];
    for (let i = 0, last = -1, next = 0; i < lane.begin.length; i++) {
      const id = idOf[lane.kind[i]], end = lane.begin[i] + lane.duration[i];
      for (; next < steps.length && lane.begin[i] >= steps[next][1]; next++) last = -1;
      if (id !== last) {
        begin.push(lane.begin[i]);
        duration.push(0);
        kind.push(id);
        last = id;
      }
      duration[begin.length - 1] = Math.max(duration[begin.length - 1], end - begin[begin.length - 1]);
    }
    return { begin: Float64Array.from(begin), duration: Float64Array.from(duration), kind: Uint32Array.from(kind),
      labels: [...ids.keys()], height: SCOPES, isScope: true };
  };
  /* Bytes at every launch of the busiest stream, and the most of each block of launches. */
  const memoryOf = () => {
    if (!names.length || names[0].length < 4) return null;
    const lane = lanes.reduce((a, b) => b.begin.length > a.begin.length ? b : a);
    const alive = Float64Array.from(names, (name) => name[3]), count = lane.kind.length;
    const bytes = new Float64Array(count), most = new Float64Array(Math.ceil(count / BLOCK));
    let peak = 1;
    for (let i = 0; i < count; i++) {
      const value = bytes[i] = alive[lane.kind[i]], block = Math.floor(i / BLOCK);
      if (value > most[block]) most[block] = value;
      if (value > peak) peak = value;
    }
    return { lane, bytes, most, peak };
  };
  const mostBetween = (first, last) => {
    let most = 0;
    for (let i = first; i < last;) {
      const isBlock = i % BLOCK === 0 && i + BLOCK <= last;
      const value = isBlock ? memory.most[i / BLOCK] : memory.bytes[i];
      if (value > most) most = value;
      i += isBlock ? BLOCK : 1;
    }
    return most;
  };
  /* The first of the row that ends at `time` or later; launches of a stream hardly overlap. */
  const firstAt = (row, time) => {
    let low = 0, high = row.begin.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (row.begin[middle] + row.duration[middle] < time) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  const drawRow = (context, row, start, span, scale, paper, colours) => {
    const isFaded = found && !row.isScope;
    for (let i = firstAt(row, start); i < row.begin.length && row.begin[i] < start + span;) {
      const x = Math.max(0, (row.begin[i] - start) * scale);
      const wide = Math.min((start + span - row.begin[i]) * scale, (row.begin[i] + row.duration[i] - start) * scale - x);
      const kind = row.kind[i];
      context.globalAlpha = isFaded && !found[kind] ? 0.2 : row.isScope ? 0.7 : 1;
      context.fillStyle = colours[kind % 8];
      context.fillRect(x, row.y, Math.max(1, wide - (wide > 3 ? 1 : 0)), row.height);
      if (wide > 50) {
        context.save();
        context.beginPath();
        context.rect(x, row.y, wide - 3, row.height);
        context.clip();
        context.globalAlpha = 1;
        context.fillStyle = paper;
        context.fillText(row.isScope ? row.labels[kind] : names[kind][0], x + 3, row.y + row.height - 5);
        context.restore();
      }
      i = wide >= 1 ? i + 1 : Math.max(i + 1, firstAt(row, start + (Math.floor(x) + 1) / scale));
    }
    context.globalAlpha = 1;
  };
  const drawMemory = (context, width, start, scale) => {
    const { lane } = memory, top = memory.y, bottom = memory.y + MEMORY;
    context.fillStyle = colour(0);
    for (let x = 0; x < width; x++) {
      const first = firstAt(lane, start + x / scale);
      if (first >= lane.begin.length) break;
      const last = Math.max(first + 1, firstAt(lane, start + (x + 1) / scale));
      const tall = mostBetween(first, last) / memory.peak * MEMORY;
      context.fillRect(x, bottom - tall, 1, tall);
    }
    context.fillStyle = ink();
    context.fillText(`bytes alive, at most ${bytesText(memory.peak)}`, 4, top - 3);
  };
  const draw = (context, width, height) => {
    const span = (to - from) * length, start = from * length, scale = width / span;
    const paper = getComputedStyle(document.body).backgroundColor;
    const colours = Array.from({ length: 8 }, (_, i) => colour(i));
    context.fillStyle = ink();
    const unit = 10 ** Math.floor(Math.log10(span / 4));
    for (let t = Math.ceil(start / unit) * unit; t < start + span; t += unit * Math.ceil(span / unit / (width / 120))) {
      context.globalAlpha = 0.3;
      context.fillRect((t - start) * scale, 0, 1, height);
      context.globalAlpha = 1;
      context.fillText(timeText(t), (t - start) * scale + 3, 12);
    }
    for (const row of rows) drawRow(context, row, start, span, scale, paper, colours);
    if (memory) drawMemory(context, width, start, scale);
    context.fillStyle = ink();
    let label = -Infinity;
    for (const [number, begin] of steps) {
      const x = (begin - start) * scale;
      if (x < 0 || x > width || x < label) continue;
      context.fillRect(x, HEAD - 4, 2, height);
      context.fillText(`step ${number}`, x + 5, height - 3);
      label = x + 60;
    }
    if (chosen) {
      const { row, index } = chosen;
      context.strokeStyle = ink();
      context.lineWidth = 2;
      context.strokeRect((row.begin[index] - start) * scale, row.y - 1, Math.max(2, row.duration[index] * scale), row.height + 2);
    }
  };
  const redraw = drawnBy(canvas, draw);
  const launchRows = () => rows.filter((row) => !row.isScope);
  const tell = () => {
    const { row, index } = chosen, [kernel, scope, phase, alive] = names[row.kind[index]];
    const step = steps.findLast(([, begin]) => begin <= row.begin[index]) || steps[0];
    said.textContent = `stream ${row.stream}, launch ${index + 1} of ${row.begin.length}: ${kernel}, ${scope}, ${phase}; ` +
      `begins ${timeText(row.begin[index] - step[1])} into step ${step[0]}, takes ${timeText(row.duration[index])}` +
      (alive === undefined ? "" : `; ${bytesText(alive)} alive`);
  };
  const choose = (row, index) => {
    if (!row) return;
    chosen = { row, index: Math.max(0, Math.min(row.begin.length - 1, index)) };
    const at = row.begin[chosen.index] / length;
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
    const row = rows.find((r) => event.offsetY >= r.y && event.offsetY < r.y + r.height);
    if (row && row.isScope) { /* a scope fills the view */
      const i = Math.min(row.begin.length - 1, firstAt(row, at(event) * length));
      from = row.begin[i] / length;
      to = Math.min(1, Math.max(from + 100 / length, (row.begin[i] + row.duration[i]) / length));
      said.textContent = `${row.labels[row.kind[i]]}: ${timeText(row.duration[i])}`;
      redraw();
    } else if (row) choose(row, firstAt(row, at(event) * length));
  });
  canvas.addEventListener("dblclick", () => { from = 0; to = 1; redraw(); });
  canvas.addEventListener("keydown", (event) => {
    const all = launchRows(), row = chosen ? chosen.row : all[0], index = chosen ? chosen.index : -1;
    const other = (by) => {
      const next = all[all.indexOf(row) + by];
      if (next) choose(next, firstAt(next, row.begin[Math.max(0, index)]));
    };
    const middle = () => {
      const place = chosen ? (row.begin[index] + row.duration[index] / 2) / length : -1;
      return place >= from && place <= to ? place : (from + to) / 2;
    };
    const keys = { ArrowRight: () => choose(row, index + 1), ArrowLeft: () => choose(row, index - 1),
      ArrowDown: () => other(1), ArrowUp: () => other(-1),
      PageDown: () => pan((to - from) / 2), PageUp: () => pan((from - to) / 2),
      Home: () => { from = 0; to = 1; redraw(); },
      "+": () => zoom(0.8, middle()), "-": () => zoom(1.25, middle()) };
    if (!(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
  });
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", "Launches over time; arrow keys choose a launch, + and - zoom, Page Up and Page Down pan, Home shows all");
  find.addEventListener("input", () => {
    const words = find.value.toLowerCase();
    found = words ? names.map((keys) => keys.slice(0, 3).join(" ").toLowerCase().includes(words)) : null;
    redraw();
  });
  const show = (cell) => {
    const { launches } = cell;
    ({ names, steps } = launches);
    length = 1;
    lanes = launches.lanes.map(unpack);
    rows = [];
    let y = HEAD;
    for (const lane of lanes) {
      const scopes = scopesOf(lane);
      Object.assign(scopes, { y });
      Object.assign(lane, { y: y + SCOPES + 2, height: LAUNCHES });
      rows.push(scopes, lane);
      y += SCOPES + LAUNCHES + GAP;
    }
    memory = memoryOf();
    if (memory) {
      memory.y = y + 14;
      y += MEMORY + 14;
    }
    canvas.style.height = `${y + 16}px`;
    from = 0; to = 1; chosen = null; found = null;
    find.value = "";
    said.textContent = `${launches.kept} launches of ${steps.length} steps on ${lanes.length} stream${lanes.length === 1 ? "" : "s"}` +
      (launches.kept < launches.all ? `; ${launches.all} were recorded, dyno report --size makes a larger page` : "");
    redraw();
  };
  place.append(make("h3", { textContent: "Launches over time" }),
    make("div", { className: "tools" }, chooser(cells, show), find), canvas, said);
  place.hidden = false;
  show(usual(cells));
};
