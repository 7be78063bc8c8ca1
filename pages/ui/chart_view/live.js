// Points of a landscape that can be dragged: energy, basins and the query's way follow in the browser, on the
// canvas of plane.js. When the point is let go Python is told, and its picture takes over.
import { sides } from "./energy.js";
import { paintMarks } from "./marks.js";
import { fill } from "./payload.js";

const FAR = 4; // pixels a press may wander and still be a click

export class Live {
  constructor(view) {
    this.view = view;
    this.changes = {}; // what differs from the scene that Python sent: { query, memories, examples, beta, strength }
    const { plot } = view;
    this.off = new AbortController();
    const { signal } = this.off;
    const on = (target, name, act) => target.addEventListener(name, act, { signal, capture: true, passive: false });
    on(plot, "pointerdown", (e) => this.press(e));
    // Plotly listens to these: a press on a point is not for it.
    for (const name of ["mousedown", "touchstart", "touchmove"]) on(plot, name, (e) => this.held && keep(e));
    on(plot, "pointermove", (e) => this.hover(e));
    on(plot, "pointerleave", () => this.tell());
    on(window, "pointermove", (e) => this.drag(e));
    on(window, "pointerup", (e) => this.release(e));
    on(window, "pointercancel", () => this.cancel());
    this.tip = document.createElement("div");
    this.tip.className = "lab-chart-tip";
    this.handle = this.handleButton(on);
    plot.after(this.tip, this.handle);
  }

  remove() {
    this.off.abort();
    this.sliders?.disconnect();
    for (const node of [this.tip, this.handle]) node.remove();
  }

  // A new picture has come from Python. What is held stays as it is, all else is Python's again.
  update(live, arrays) {
    const before = this.scene;
    this.live = live;
    this.scene = fill(live.scene, arrays, {});
    const others = ["memories", "examples"].some((k) => before && before[k].length !== this.scene[k].length);
    if (others) this.held = this.keyed = undefined; // what was held may not be there any more
    this.scene.plane = { origin: this.scene.origin, basis: this.scene.basis };
    if (!this.held?.moved && !this.keyed) this.changes = {};
    this.watch();
  }

  // Whether the picture shown is the browser's own.
  busy() {
    return Object.keys(this.changes).length > 0;
  }

  // Python's picture stands. What is still held goes on from there.
  settled() {
    if (this.held?.moved || this.keyed) return this.paint();
    this.changes = {};
    this.rest();
  }

  // --- which point ------------------------------------------------------------------------------------

  // The points that can be dragged in a panel, those on top last.
  points(panel) {
    const { scene, shown } = this;
    const which = this.live.panels[panel.x];
    const pick = (kind, flat) =>
      Array.from({ length: flat.length / 2 }, (_, i) => ({ kind, index: i, at: [flat[2 * i], flat[2 * i + 1]] }));
    const now = { ...scene, ...this.changes };
    return [
      ...(this.live.whole ? pick("example", shown?.examples ?? now.examples) : []),
      ...(this.live.whole && which === "before" ? pick("memory", now.memories) : []),
      { kind: "query", index: 0, at: now.query },
    ];
  }

  find(event) {
    const { canvas, plot } = this.view;
    const box = plot.getBoundingClientRect();
    const [px, py] = [event.clientX - box.left, event.clientY - box.top];
    for (const panel of canvas.panels ?? []) {
      const place = canvas.place(panel);
      if (px < place.left || py < place.top || px > place.left + place.width || py > place.top + place.height) continue;
      let [point, least] = [null, event.pointerType === "touch" ? 20 : 11];
      for (const p of this.points(panel)) {
        const far = Math.hypot(place.px(p.at[0]) - px, place.py(p.at[1]) - py);
        if (far <= least) [point, least] = [p, far];
      }
      return { panel, place, px, py, point };
    }
    return null;
  }

  // --- the pointer ------------------------------------------------------------------------------------

  press(event) {
    if (event.button || !this.view.drawn) return;
    const found = this.find(event);
    if (!found) return;
    this.pressed = { ...found, from: [event.clientX, event.clientY], id: event.pointerId };
    if (!found.point) return;
    this.held = { ...found, ...found.point, id: event.pointerId, moved: false };
    event.stopPropagation();
    this.tell();
  }

  hover(event) {
    if (event.buttons || this.held || !this.view.drawn || event.pointerType === "touch") return;
    const found = this.find(event);
    this.view.root.dataset.grab = found?.point ? "open" : "";
    this.tell(found);
  }

  // The energy where the mouse is, of the nearest point of Python's grid, as plotly would say it.
  tell(found) {
    const { tip, view } = this;
    const over = view.plot.querySelector(".hoverlayer")?.childElementCount;
    const trace = found?.panel.heat[0];
    const grip = this.view.root.dataset.live === "true";
    tip.hidden = !trace || Boolean(over) || grip;
    if (tip.hidden) return;
    const { place, px, py } = found;
    const nearest = (axis, v) => clamp(Math.round((v - axis[0]) / (axis[1] - axis[0])), 0, axis.length - 1);
    const [j, i] = [nearest(trace.x, place.x(px)), nearest(trace.y, place.y(py))];
    const value = trace.z[i][j];
    const said = Number.isFinite(value) ? value.toFixed(4) : "not finite";
    tip.textContent = `${trace.x[j].toFixed(3)}, ${trace.y[i].toFixed(3)}\nE = ${said}`;
    const flip = px + 150 > view.plot.clientWidth;
    tip.style.left = `${px + (flip ? -14 : 14)}px`;
    tip.style.top = `${view.plot.offsetTop + py - 20}px`;
    tip.style.transform = flip ? "translateX(-100%)" : "";
  }

  drag(event) {
    const { held } = this;
    if (!held || event.pointerId !== held.id) return;
    const [x0, y0] = this.pressed.from;
    if (!held.moved && Math.hypot(event.clientX - x0, event.clientY - y0) < FAR) return;
    if (!held.moved) this.view.root.dataset.grab = "closed";
    held.moved = true;
    const box = this.view.plot.getBoundingClientRect();
    const place = this.view.canvas.place(held.panel);
    this.move(held, place.x(event.clientX - box.left), place.y(event.clientY - box.top), place);
  }

  release(event) {
    const { held, pressed } = this;
    if (!pressed || event.pointerId !== pressed.id) return;
    this.held = this.pressed = undefined;
    const still = Math.hypot(event.clientX - pressed.from[0], event.clientY - pressed.from[1]) < FAR;
    this.view.root.dataset.grab = "";
    if (held?.moved) return this.commit(held);
    if (still && this.view.head.click) {
      const { place, px, py } = pressed;
      this.view.send("click", { x: place.x(px), y: place.y(py) });
    }
  }

  cancel() {
    this.held = this.pressed = undefined;
    this.view.root.dataset.grab = "";
    this.settled();
  }

  // --- the keyboard -----------------------------------------------------------------------------------

  // One button stands on the chosen point, so that Tab reaches the picture with one press.
  handleButton(on) {
    const b = document.createElement("button");
    b.type = "button";
    b.className = "lab-chart-handle";
    this.chosen = -1; // the query, which comes last
    on(b, "focus", () => this.follow());
    on(b, "blur", () => this.keyed && this.finish());
    on(b, "keydown", (e) => this.key(e));
    on(b, "keyup", (e) => {
      if (!this.keyed || !e.key.startsWith("Arrow")) return;
      clearTimeout(this.later);
      this.later = setTimeout(() => this.finish(), 500); // Python is told when the keys rest
    });
    return b;
  }

  key(event) {
    const panel = this.view.canvas.panels?.[0];
    if (!panel || !this.view.drawn) return;
    const all = this.points(panel);
    const turn = { PageDown: 1, PageUp: -1 }[event.key];
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (turn) {
      if (this.keyed) this.finish();
      this.chosen = (this.chosen + turn + 2 * all.length) % all.length;
    } else if (step) {
      const point = all.at(this.chosen);
      const place = this.view.canvas.place(panel);
      const size = (place.range[1] - place.range[0]) / (event.shiftKey ? 20 : 100);
      clearTimeout(this.later);
      this.keyed = { ...point, panel };
      this.move(this.keyed, point.at[0] + step[0] * size, point.at[1] + step[1] * size, place);
    } else if (event.key === "Enter" && this.keyed) this.finish();
    else if (event.key === "Escape") (this.keyed = undefined, clearTimeout(this.later), this.settled());
    else return;
    event.preventDefault();
    this.follow();
  }

  finish() {
    clearTimeout(this.later);
    const point = this.keyed;
    this.keyed = undefined;
    if (point) this.commit(point);
  }

  // The button stands where its point is, and says so.
  follow() {
    const panel = this.view.canvas.panels?.[0];
    if (!panel || !this.scene || !this.view.plot._fullLayout?.[panel.x]) return;
    const all = this.points(panel);
    const point = all.at(this.chosen) ?? all.at((this.chosen = -1));
    const place = this.view.canvas.place(panel);
    const name = point.kind === "query" ? "the query" : `${point.kind} ${point.index}`;
    const at = Array.from(point.at, (v) => v.toFixed(2)).join(", ");
    const how = "Arrows move it, Page Up and Page Down choose another point.";
    this.handle.setAttribute("aria-label", `${name} at ${at}. ${how}`);
    this.handle.style.left = `${place.px(point.at[0])}px`;
    this.handle.style.top = `${this.view.plot.offsetTop + place.py(point.at[1])}px`;
  }

  // --- what follows -----------------------------------------------------------------------------------

  move(point, x, y, place) {
    const [x0, x1, y0, y1] = place.range;
    const at = [clamp(x, x0, x1), clamp(y, y0, y1)].map((v) => Number(v.toPrecision(5)));
    point.at = at;
    if (point.kind === "query") Object.assign(this.changes, { query: at, placed: true });
    else {
      const name = point.kind === "memory" ? "memories" : "examples";
      this.changes[name] = (this.changes[name] ?? this.scene[name]).slice();
      this.changes[name].set(at, 2 * point.index);
    }
    this.ask();
  }

  commit({ kind, index, at: [x, y] }) {
    this.view.send("drag", { kind, index, x, y });
  }

  // Sliders of the page's panel: the text over their thumb is their value while they move.
  watch() {
    this.sliders ??= new MutationObserver(() => {
      for (const [name, place] of Object.entries(this.live.sliders)) {
        const thumb = document.querySelector(`.${place} [data-testid=stSliderThumbValue]`);
        const value = parseFloat(thumb?.textContent);
        if (!Number.isFinite(value) || value === (this.changes[name] ?? this.scene[name])) continue;
        if (Math.abs(value - this.scene[name]) <= 1e-5 * Math.abs(value)) delete this.changes[name];
        else this.changes[name] = value;
        this.ask();
      }
    });
    for (const place of Object.values(this.live.sliders)) {
      const node = document.querySelector(`.${place}`);
      // Observing a node twice changes nothing, and a new node may stand in the place.
      if (node) this.sliders.observe(node, { subtree: true, childList: true, characterData: true });
    }
  }

  ask() {
    this.asked ??= requestAnimationFrame(() => {
      this.asked = undefined;
      if (this.busy()) this.paint();
      else this.rest();
    });
  }

  rest() {
    const { root, canvas } = this.view;
    root.dataset.live = "";
    this.shown = undefined;
    canvas.take(this.view.shown);
    canvas.paint();
    this.follow();
  }

  paint() {
    const started = performance.now();
    const { canvas, root } = this.view;
    const { live, changes } = this;
    const { scene, before, after } = sides({ ...this.scene, ...changes });
    this.shown = scene;
    const panels = canvas.take(this.view.shown);
    // A single picture has 201 points a side; smoothed, 101 look the same and are done in a quarter of the time.
    const [x, y] = ["x", "y"].map((axis) => {
      const fine = panels[0].heat[0][axis];
      return fine.length > 101 ? fine.filter((_, i) => i % 2 === 0) : fine;
    });
    const basins = live.whole && panels.some((p) => p.heat.some((t) => t.meta?.basins));
    const fields = { before: before.grid(x, y, basins), after: after.grid(x, y, basins) };
    const grids = { before: fields.before.z, after: fields.after.z };
    const differs = live.panels[panels[0].x] === "difference";
    if (differs) grids.difference = grids.after.map((row, i) => row.map((v, j) => v - grids.before[i][j]));
    const [low, high] = differs ? reach(grids.difference) : extent([...grids.before, ...grids.after]);
    canvas.layout = { ...canvas.layout, coloraxis: { ...canvas.layout.coloraxis, cmin: low, cmax: high } };
    // Beyond the plane the browser knows the query's way, but not where minima of the space have gone.
    const reshaped = "beta" in changes || "strength" in changes;
    const followed = live.whole || !reshaped;
    // The energy stays as it is while the query alone is dragged, unless the query is an example.
    const still = !scene.lemma && !reshaped && !("memories" in changes || "examples" in changes);
    for (const panel of panels) {
      const shows = live.panels[panel.x];
      panel.side = shows === "before" ? "before" : "after";
      const side = { before, after }[panel.side];
      const heat = (trace) => {
        if (!trace.meta?.basins) return { ...trace, x, y, z: grids[shows] };
        if (!live.whole) return trace;
        const labels = side.basins(trace.x, trace.y, fields[panel.side]);
        return { ...trace, z: labels.map((row) => row.map((v) => (v < 0 ? v : v % trace.meta.basins))) };
      };
      panel.heat = panel.heat.filter((t) => !t.meta?.basins || followed).map(heat);
      panel.lines = panel.lines.map((trace) => {
        const every = Math.round((x.length - 1) / (trace.x.length - 1));
        const nth = (rows) => rows.filter((_, i) => i % every === 0);
        const { start, end, size } = trace.contours;
        const contours = { start: low, size: (high - low) / Math.round((end - start) / size) || 1 };
        return { ...trace, z: nth(grids[shows]).map(nth), contours };
      });
      panel.way = side.path(...scene.query);
      const found = () => [side.path(...lowest(grids[panel.side], x, y)).at(-1)];
      panel.lowest = still ? undefined : live.whole ? found() : followed ? undefined : [];
    }
    root.dataset.live = "true"; // plotly's marks hide
    this.tip.hidden = true;
    canvas.paint((ctx, panel, place) => paintMarks(ctx, panel, place, { scene, before, after }, this.view.shown));
    this.follow();
    root.dataset.frameMs = (performance.now() - started).toFixed(2);
    root.dataset.frames = Number(root.dataset.frames ?? 0) + 1;
  }
}

// For us alone, not for plotly or the page.
function keep(event) {
  event.stopPropagation();
  event.preventDefault();
}

function clamp(v, low, high) {
  return Math.max(low, Math.min(high, v));
}

function extent(rows) {
  let [low, high] = [Infinity, -Infinity];
  for (const row of rows)
    for (const v of row) {
      if (v < low) low = v;
      if (v > high) high = v;
    }
  return [low, high];
}

function reach(rows) {
  const most = Math.max(...extent(rows).map(Math.abs)) || 1;
  return [-most, most];
}

function lowest(grid, x, y) {
  let [best, at] = [Infinity, [0, 0]];
  grid.forEach((row, i) => row.forEach((v, j) => {
    if (v < best) [best, at] = [v, [x[j], y[i]]];
  }));
  return at;
}
