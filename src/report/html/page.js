"use strict";
/* What the page can do with a script: tables that sort, filter and are copied; the viewers of memory over a
   step and of time by scope. Without it the page is complete, but for these. Texts of records are only ever
   set as textContent. */
(() => {
  const records = JSON.parse(document.getElementById("records").textContent);
  const make = (name, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(name), properties);
    element.append(...children);
    return element;
  };

  /* ---- tables ---- */

  const cellValue = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v);
  };
  /* Numbers by size, texts by name, empty cells last in either direction. */
  const compare = (a, b, sign) => {
    if (a === "" || b === "") return (a === "") - (b === "");
    if (typeof a === "number" && typeof b === "number") return sign * (a - b);
    return sign * String(a).localeCompare(String(b), undefined, { numeric: true });
  };
  const sortBy = (table, column) => {
    const heads = [...table.tHead.rows[0].cells];
    const isDescending = heads[column].getAttribute("aria-sort") === "ascending";
    heads.forEach((head) => head.removeAttribute("aria-sort"));
    heads[column].setAttribute("aria-sort", isDescending ? "descending" : "ascending");
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => compare(cellValue(a, column), cellValue(b, column), isDescending ? -1 : 1));
    table.tBodies[0].append(...rows);
  };
  const shownRows = (table) => [table.tHead.rows[0], ...[...table.tBodies[0].rows].filter((row) => !row.hidden)]
    .map((row) => [...row.cells].map((cell) => cell.textContent));
  const quoteCsv = (value) => {
    const isFormula = /^\s*[=+@-]/.test(value) && Number.isNaN(Number(value));
    const text = isFormula ? "'" + value : value;
    return /[",;\t\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  };
  const texSpecial = { "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}",
    "<": "\\textless{}", ">": "\\textgreater{}", "|": "\\textbar{}" };
  const quoteTex = (value) => value.replace(/[{}$&#_%]/g, "\\$&").replace(/\\(?![{}$&#_%])|[~^<>|]/g,
    (character) => texSpecial[character]);
  const quoteMarkdown = (value) => value.replace(/[|\\<`&[\]*~]/g, "\\$&");
  const writers = {
    CSV: (rows) => rows.map((row) => row.map(quoteCsv).join(",")).join("\r\n") + "\r\n",
    Markdown: (rows) => rows.map((row, i) => "| " + row.map(quoteMarkdown).join(" | ") + " |" +
      (i ? "" : "\n|" + row.map(() => "---|").join(""))).join("\n") + "\n",
    LaTeX: (rows) => "\\begin{tabular}{" + "l".repeat(rows[0].length) + "}\n\\toprule\n" +
      rows.map((row, i) => row.map(quoteTex).join(" & ") + " \\\\" + (i ? "" : "\n\\midrule")).join("\n") +
      "\n\\bottomrule\n\\end{tabular}\n",
  };
  const copy = async (text, button, label) => {
    let copied = true;
    try {
      await navigator.clipboard.writeText(text);
    } catch { /* a page from a file may not write to the clipboard this way */
      const area = make("textarea", { value: text });
      document.body.append(area);
      area.select();
      copied = document.execCommand("copy");
      area.remove();
    }
    button.textContent = copied ? "copied" : "not allowed here";
    setTimeout(() => { button.textContent = label; }, 1200);
  };
  const equip = (table) => {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = make("button", { type: "button", textContent: head.textContent });
      button.addEventListener("click", () => sortBy(table, column));
      head.replaceChildren(button);
    });
    const filter = make("input", { type: "search", placeholder: "filter rows" });
    filter.setAttribute("aria-label", "Show only rows that contain this text");
    const count = make("span", { className: "note" });
    count.setAttribute("role", "status");
    filter.addEventListener("input", () => {
      const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of table.tBodies[0].rows) {
        const text = row.textContent.toLowerCase() + " ";
        const cells = [...row.cells].map((cell) => cell.textContent.toLowerCase()).join(" ");
        row.hidden = !words.every((word) => text.includes(word) || cells.includes(word));
        shown += !row.hidden;
      }
      count.textContent = words.length ? `${shown} of ${table.tBodies[0].rows.length} rows` : "";
    });
    const tools = make("div", { className: "tools" }, filter, count);
    for (const [name, write] of Object.entries(writers)) {
      const label = `copy ${name}`, button = make("button", { type: "button", textContent: label });
      button.addEventListener("click", () => copy(write(shownRows(table)), button, label));
      tools.append(button);
    }
    table.parentElement.before(tools);
  };
  document.querySelectorAll(".table table").forEach(equip);

  /* Paper opens nothing. */
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => { part.open = true; }));

  /* ---- what the viewers share ---- */

  const colour = (index) => getComputedStyle(document.documentElement).getPropertyValue(`--c${index % 8}`).trim();
  const ink = () => getComputedStyle(document.documentElement).getPropertyValue("--ink").trim();
  const bytesText = (bytes) => {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = 0;
    while (Math.abs(bytes) >= 1024 && unit < 4) { bytes /= 1024; unit++; }
    return `${bytes.toFixed(unit ? 2 : 0)} ${units[unit]}`;
  };
  const timeText = (ns) => ns >= 1e9 ? `${(ns / 1e9).toFixed(3)} s` : ns >= 1e6 ? `${(ns / 1e6).toFixed(3)} ms` : `${(ns / 1e3).toFixed(1)} us`;
  const canvasOf = (height) => {
    const canvas = make("canvas");
    canvas.style.height = `${height}px`;
    canvas.tabIndex = 0;
    return canvas;
  };
  /* As many pixels as the screen has; draws once a frame at most. */
  const drawnBy = (canvas, draw) => {
    let isAsked = false;
    const redraw = () => {
      if (isAsked) return;
      isAsked = true;
      requestAnimationFrame(() => {
        isAsked = false;
        const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
        if (!width) return;
        canvas.width = Math.round(width * ratio);
        canvas.height = Math.round(height * ratio);
        const context = canvas.getContext("2d");
        context.scale(ratio, ratio);
        context.font = "11px system-ui, sans-serif";
        draw(context, width, height);
      });
    };
    new ResizeObserver(redraw).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    return redraw;
  };
  const cellName = (cell) => ["model", "context", "pass", "mode", "math"].filter((key) => key in cell.parameters)
    .map((key) => cell.parameters[key]).join(", ");
  /* A whole step rather than a part of it. */
  const usual = (cells) => cells.find((cell) => cell.parameters.pass === "step") || cells[0];
  const chooser = (cells, show) => {
    const select = make("select");
    select.setAttribute("aria-label", "Cell");
    cells.forEach((cell, i) => select.append(make("option", { value: String(i), textContent: cellName(cell) })));
    select.addEventListener("change", () => show(cells[Number(select.value)]));
    select.value = String(cells.indexOf(usual(cells)));
    return select;
  };
  const cellsWith = (run, breakdown) => run ? run.cells.filter((cell) => cell.breakdowns &&
    cell.breakdowns[breakdown] && cell.breakdowns[breakdown].rows.length) : [];
  const columnOf = (table, name) => table.columns.findIndex((column) => column.name === name);

  /* ---- memory: bytes by role over the launches of a step ---- */

  /* As the record calls them, and as people do. The plot of peaks has the same colours and counts what is saved and the
     workspace to the activations. */
  const roles = ["parameter", "gradient", "optimizer-state", "saved", "activation", "workspace", "input"];
  const roleNames = ["weights", "gradients", "state", "saved", "activations", "workspace", "inputs"];
  const roleColours = [0, 1, 2, 5, 3, 6, 4];

  const memoryViewer = (place, run) => {
    const cells = cellsWith(run, "timeline");
    if (!cells.length) return;
    const canvas = canvasOf(300), said = make("p", { className: "note" }), alive = make("div", { className: "alive" });
    said.setAttribute("role", "status");
    let table, shown, from = 0, to = 1, chosen = -1, most = 1;
    const draw = (context, width, height) => {
      const rows = table.rows, first = Math.floor(from * rows.length), last = Math.ceil(to * rows.length);
      const step = Math.max(1, Math.floor((last - first) / width));
      for (let x = 0; x < width; x++) {
        /* The moment with most bytes of those that share a pixel: a peak cannot vanish. */
        const begin = first + Math.floor((last - first) * x / width), end = Math.min(last, begin + step);
        let best = begin;
        for (let i = begin; i < end; i++) if (shown.sums[i] > shown.sums[best]) best = i;
        let y = height - 16;
        shown.columns.forEach((column, role) => {
          if (column < 0 || !rows[best]) return;
          const tall = Number(rows[best].values[column]) / most * (height - 32);
          context.fillStyle = colour(roleColours[role]);
          context.fillRect(x, y - tall, 1, tall);
          y -= tall;
        });
      }
      context.fillStyle = ink();
      /* Updates that run beside the backward interrupt it for a launch or two: it goes on behind those that are too
         narrow to be seen. What has no room for its name gets a tick. */
      const pixels = width / (last - first), narrow = 12;
      for (let i = first, end; i < last; i = end) {
        const phase = rows[i].keys[0];
        end = i + 1;
        for (let j = end; j < last && (j - end) * pixels < narrow; j++)
          if (rows[j].keys[0] === phase) end = j + 1;
        const x = (i - first) * pixels, fits = context.measureText(phase).width + 8 < (end - i) * pixels;
        context.fillRect(x, fits ? 0 : height - 16, 1, fits ? height : 4);
        if (fits) context.fillText(phase, x + 4, height - 4);
      }
      if (chosen >= first && chosen < last)
        context.fillRect((chosen - first + 0.5) / (last - first) * width, 0, 2, height);
    };
    const redraw = drawnBy(canvas, draw);
    const tell = () => {
      const row = table.rows[chosen];
      said.textContent = `launch ${row.values[columnOf(table, "launch")]}, ${row.keys.join(", ")}: ` +
        `${bytesText(shown.sums[chosen])} alive: ` + roleNames.map((name, i) => shown.columns[i] < 0 ? "" :
          `${name} ${bytesText(Number(row.values[shown.columns[i]]))}`).filter(Boolean).join(", ");
      alive.replaceChildren();
      const list = shown.cell.breakdowns.allocations;
      if (!list) return;
      const launch = Number(row.values[columnOf(table, "launch")]);
      const [born, last, bytes, count, stays] = ["born", "last_used", "bytes", "count", "persistent"]
        .map((name) => columnOf(list, name));
      const rows = list.rows.filter((r) => r.values[stays] || (r.values[born] <= launch && r.values[last] >= launch))
        .sort((a, b) => b.values[bytes] - a.values[bytes]).slice(0, 200);
      alive.append(make("p", { textContent: "The largest of what is alive; of many that are alike, by the first:" }),
        make("ol", {}, ...rows.map((r) => make("li", { textContent:
          `${bytesText(r.values[bytes])} (x ${r.values[count]}) ${r.keys.join(" | ")}` }))));
    };
    const choose = (index) => {
      chosen = Math.max(0, Math.min(table.rows.length - 1, index));
      tell();
      redraw();
    };
    const zoom = (factor, middle) => {
      const span = Math.min(1, Math.max(20 / table.rows.length, (to - from) * factor));
      from = Math.max(0, Math.min(1 - span, middle - (middle - from) / (to - from) * span));
      to = from + span;
      redraw();
    };
    const at = (event) => from + (event.offsetX / canvas.clientWidth) * (to - from);
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      zoom(event.deltaY > 0 ? 1.25 : 0.8, at(event));
    }, { passive: false });
    canvas.addEventListener("click", (event) => choose(Math.floor(at(event) * table.rows.length)));
    canvas.addEventListener("pointermove", (event) => {
      if (!event.buttons) return;
      const by = Math.max(-from, Math.min(1 - to, -event.movementX / canvas.clientWidth * (to - from)));
      from += by;
      to += by;
      redraw();
    });
    canvas.addEventListener("keydown", (event) => {
      const moves = { ArrowLeft: -1, ArrowRight: 1, PageUp: -50, PageDown: 50 };
      if (event.key in moves) choose(chosen + moves[event.key]);
      else if (event.key === "+") zoom(0.8, (from + to) / 2);
      else if (event.key === "-") zoom(1.25, (from + to) / 2);
      else return;
      event.preventDefault();
    });
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", "Bytes by role at every launch; arrow keys choose a launch, + and - zoom");
    const show = (cell) => {
      table = cell.breakdowns.timeline;
      const columns = roles.map((role) => columnOf(table, role));
      const sums = table.rows.map((row) => columns.reduce((sum, c) => sum + (c < 0 ? 0 : Number(row.values[c]) || 0), 0));
      shown = { cell, columns, sums };
      most = sums.reduce((a, b) => Math.max(a, b), 1);
      from = 0; to = 1;
      choose(sums.indexOf(most));
    };
    place.append(make("h3", { textContent: "Bytes over the step, by role" }),
      make("div", { className: "tools" }, chooser(cells, show)), canvas,
      make("ul", { className: "legend" }, ...roleNames.map((name, i) =>
        make("li", { className: `c${roleColours[i]}` }, make("span"), name))), said, alive);
    place.hidden = false;
    show(usual(cells));
  };

  /* ---- time by scope: a flame graph, forward beside backward ---- */

  const flameViewer = (place, run) => {
    /* A profile also has its scopes by phase: forward beside backward. */
    const scopesOf = (cell) => cell.breakdowns.scopes || cell.breakdowns.by_scope;
    const cells = cellsWith(run, "by_scope").filter((cell) => columnOf(scopesOf(cell), "time") >= 0);
    if (!cells.length) return;
    const canvas = canvasOf(220), said = make("p", { className: "note" });
    const find = make("input", { type: "search", placeholder: "search scopes" });
    find.setAttribute("aria-label", "Scopes that contain this text are highlighted");
    said.setAttribute("role", "status");
    let root, zoomed, boxes = [];
    const treeOf = (cell) => {
      const table = scopesOf(cell), time = columnOf(table, "time");
      const scope = table.keys.indexOf("scope"), phase = table.keys.indexOf("phase");
      const top = { name: "step", time: 0, children: new Map(), parent: null };
      for (const row of table.rows) {
        const ns = Number(row.values[time]) || 0;
        const path = [...(phase >= 0 ? [row.keys[phase]] : []), ...String(row.keys[scope]).split(".")];
        let node = top;
        node.time += ns;
        for (const part of path) {
          if (!node.children.has(part))
            node.children.set(part, { name: part, time: 0, children: new Map(), parent: node });
          node = node.children.get(part);
          node.time += ns;
        }
      }
      return top;
    };
    /* Phases in the order of a step, scopes by their time. */
    const phases = ["forward", "backward", "optimizer"];
    const childrenOf = (node) => [...node.children.values()].sort((a, b) => node.parent ? b.time - a.time :
      phases.indexOf(a.name) - phases.indexOf(b.name) || b.time - a.time);
    const pathOf = (node) => node.parent && node.parent.parent ? `${pathOf(node.parent)}.${node.name}` : node.name;
    const draw = (context, width) => {
      boxes = [];
      const words = find.value.toLowerCase();
      const place_ = (node, x, wide, depth) => {
        const y = 4 + depth * 22, isFound = words && node.name.toLowerCase().includes(words);
        context.fillStyle = isFound ? colour(4) : colour(depth);
        context.globalAlpha = words && !isFound ? 0.25 : 0.85;
        context.fillRect(x, y, Math.max(0.5, wide - 1), 20);
        context.globalAlpha = 1;
        if (wide > 40) {
          context.save();
          context.beginPath();
          context.rect(x, y, wide - 4, 20);
          context.clip();
          context.fillStyle = getComputedStyle(document.body).backgroundColor;
          context.fillText(node.name, x + 4, y + 14);
          context.restore();
        }
        boxes.push({ node, x, y, wide });
        let at = x;
        const all = node.time || 1;
        for (const child of childrenOf(node)) {
          const its = child.time / all * wide;
          if (its >= 0.5) place_(child, at, its, depth + 1);
          at += its;
        }
      };
      place_(zoomed, 0, width, 0);
    };
    const redraw = drawnBy(canvas, draw);
    const tell = (node) => {
      said.textContent = `${pathOf(node)}: ${timeText(node.time)}, ${(100 * node.time / (root.time || 1)).toFixed(1)} % of the step`;
    };
    const boxAt = (event) => boxes.find((box) => event.offsetX >= box.x && event.offsetX < box.x + box.wide &&
      event.offsetY >= box.y && event.offsetY < box.y + 20);
    canvas.addEventListener("pointermove", (event) => { const box = boxAt(event); if (box) tell(box.node); });
    canvas.addEventListener("click", (event) => {
      const box = boxAt(event);
      if (!box) return;
      zoomed = box.node === zoomed && zoomed.parent ? zoomed.parent : box.node;
      redraw();
    });
    canvas.addEventListener("keydown", (event) => {
      const siblings = childrenOf(zoomed.parent || zoomed);
      const index = siblings.indexOf(zoomed);
      const moves = { ArrowUp: () => zoomed.parent, ArrowDown: () => childrenOf(zoomed)[0],
        ArrowLeft: () => siblings[index - 1], ArrowRight: () => siblings[index + 1] };
      const next = event.key in moves && moves[event.key]();
      if (!next) return;
      event.preventDefault();
      zoomed = next;
      tell(zoomed);
      redraw();
    });
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", "Time by scope; arrow keys go to the parent, the largest child and the siblings");
    find.addEventListener("input", redraw);
    const show = (cell) => { root = zoomed = treeOf(cell); tell(root); redraw(); };
    place.append(make("h3", { textContent: "Time by scope" }),
      make("div", { className: "tools" }, chooser(cells, show), find), canvas, said);
    place.hidden = false;
    show(usual(cells));
  };

  const shared = window.dynoViewers = { make, colour, ink, timeText, bytesText, canvasOf, drawnBy, chooser, usual };
  const viewers = { memory: memoryViewer, flame: flameViewer,
    timeline: (place, run) => timelineViewer(place, run, shared) };
  document.querySelectorAll("[data-viewer]").forEach((place) =>
    viewers[place.dataset.viewer](place, records[Number(place.dataset.run)]));
})();
