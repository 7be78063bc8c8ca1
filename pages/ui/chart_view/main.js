// Draws one figure with Plotly.react into a node that outlives reruns, so zoom and camera stay.
import { describe } from "./describe.js";
import { Live } from "./live.js";
import { fill, unpack } from "./payload.js";
import { Canvas } from "./plane.js";

const views = new WeakMap(); // figure element -> View

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".lab-chart");
  if (!root || !data) return;
  let view = views.get(root);
  if (!view) views.set(root, (view = new View(root)));
  view.send = setTriggerValue;
  view.update(data);
  return () => {
    view.remove();
    views.delete(root);
  };
}

const paper = matchMedia("print");
const A4 = 680; // pixels of a picture on paper, margins left out
let count = 0; // of views, for their ids

const themes = {}; // background colour -> "light" or "dark"

function themeOf(colour) {
  const probe = document.createElement("canvas").getContext("2d");
  probe.fillStyle = colour || "#fff";
  const hex = probe.fillStyle;
  const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  return 0.299 * r + 0.587 * g + 0.114 * b < 128 ? "dark" : "light";
}

let plotly; // one promise for the whole page

function loadPlotly() {
  plotly ??= new Promise((resolve, reject) => {
    if (window.Plotly) return resolve(window.Plotly);
    const script = document.createElement("script");
    script.src = new URL("../reshape.plotly/plotly.min.js", import.meta.url).href;
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => {
      plotly = undefined; // the next rerun tries again
      reject(new Error("plotly.js could not be loaded; check the connection and reload the page"));
    };
    document.head.append(script);
  });
  return plotly;
}

class View {
  constructor(root) {
    this.root = root;
    this.plot = root.querySelector(".lab-chart-plot");
    this.tools = root.querySelector(".lab-chart-tools");
    this.message = root.querySelector(".lab-chart-message");
    this.words = root.querySelector(".lab-chart-words");
    this.words.id = `lab-chart-words-${(count += 1)}`;
    this.frame = 0;
    this.queue = Promise.resolve();
    this.sizes = new ResizeObserver(() => this.resized());
    this.sizes.observe(root);
    this.onFrame = ({ detail }) => {
      if (detail.from !== this && detail.group && detail.group === this.head?.frames?.group) this.show(detail.index, false);
    };
    window.addEventListener("reshape:frame", this.onFrame);
    this.onFull = () => this.resized(true);
    document.addEventListener("fullscreenchange", this.onFull);
    this.onPaper = () => this.head && this.update(this.head);
    paper.addEventListener("change", this.onPaper);
    this.plot.addEventListener("keydown", (event) => this.pressed(event));
  }

  remove() {
    this.stop();
    this.sizes.disconnect();
    window.removeEventListener("reshape:frame", this.onFrame);
    document.removeEventListener("fullscreenchange", this.onFull);
    paper.removeEventListener("change", this.onPaper);
    this.live?.remove();
    if (window.Plotly && this.drawn) window.Plotly.purge(this.plot);
  }

  // With a picture's bytes, or with the head they were unpacked to.
  update(bytes) {
    try {
      const head = bytes.figure ? bytes : unpack(bytes);
      const theme = this.theme();
      if (head.revision === this.head?.revision && theme === this.lastTheme) {
        this.live?.settled(); // a drag that changed nothing, or was refused
        return;
      }
      if (head.revision !== this.head?.revision) {
        this.stop();
        this.head = head;
        this.frame = head.frames ? head.frames.start : 0;
      }
      this.lastTheme = theme;
      if (!this.drawn) this.message.textContent = `Drawing … ${head.alt}`;
      delete this.root.dataset.painted; // until this one is
      this.draw();
    } catch (error) {
      this.fail(error);
    }
  }

  theme() {
    if (paper.matches) return "light";
    const colour = getComputedStyle(this.root).getPropertyValue("--st-background-color").trim();
    return (themes[colour] ??= themeOf(colour));
  }

  figure(theme) {
    const { figure, arrays, looks } = this.head;
    const { colours, template } = looks[theme];
    const data = fill(figure.data, arrays, colours);
    const layout = fill(figure.layout, arrays, colours);
    layout.template = template;
    layout.uirevision = "kept";
    // What a figure says for a narrow screen: pictures side by side go below each other.
    if (this.narrow() && layout.meta?.narrow) merge(layout, layout.meta.narrow);
    const frame = this.head.frames?.frames[this.frame];
    frame?.traces.forEach((t, i) => merge(data[t], fill(frame.data[i], arrays, colours)));
    return { data, layout };
  }

  size() {
    const full = document.fullscreenElement === this.root;
    const width = this.width;
    const { height: wanted = 420, meta } = this.head.figure.layout;
    // On a narrow screen a picture is no taller than a little more than it is wide, unless it says so.
    const height = full ? this.root.clientHeight - this.tools.offsetHeight - 24
      : meta?.fill && !this.narrow() ? roomy(meta.fill, wanted, width)
      : this.narrow() ? (meta?.narrow?.height ?? Math.min(wanted, Math.max(300, Math.round(width * 1.05)))) : wanted;
    return { width, height };
  }

  // Asking for the width makes the browser lay the page out: once a drawing is enough.
  measure() {
    this.width = paper.matches ? A4 : Math.floor(this.plot.clientWidth);
  }

  narrow() {
    return this.width < 560;
  }

  // Draws one after another; of those waiting only the newest is drawn.
  draw() {
    const turn = (this.turn = (this.turn ?? 0) + 1);
    this.queue = this.queue.then(async () => {
      if (turn !== this.turn) return;
      try {
        const Plotly = await loadPlotly();
        if (turn !== this.turn || !this.root.isConnected) return;
        this.measure();
        const { data, layout } = this.figure(this.lastTheme);
        layout.paper_bgcolor = "rgba(0,0,0,0)";
        layout.plot_bgcolor ??= "rgba(0,0,0,0)";
        Object.assign(layout, this.size());
        squared(layout);
        if (!layout.width) return (this.waiting = true); // hidden (a closed tab): drawn once it has a width
        this.waiting = false;
        this.canvasFor({ data, layout });
        this.plot.setAttribute("role", "img");
        this.plot.setAttribute("aria-label", this.head.alt);
        this.plot.setAttribute("aria-describedby", this.words.id);
        this.plot.tabIndex = 0;
        keepCameras(this.plot);
        this.drawing = true;
        await Plotly.react(this.plot, data, layout, {
          displayModeBar: false, showTips: false, responsive: false, scrollZoom: false, doubleClick: "reset+autosize",
        });
        this.drawing = false;
        if (!this.drawn) {
          this.drawn = true;
          this.plot.on("plotly_click", (event) => !this.live && this.clicked(event));
          this.plot.on("plotly_afterplot", () => this.repaint()); // zoomed, or a new size
        }
        if (this.live) this.live.settled();
        else this.canvas?.paint();
        this.root.dataset.click = this.head.click;
        this.root.dataset.state = "drawn";
        this.message.textContent = "";
        this.buttons();
        this.painted();
      } catch (error) {
        this.fail(error);
      }
    });
    return this.queue;
  }

  // A figure that says so has its heatmaps and contour lines painted on a canvas under the rest of it.
  canvasFor({ data, layout }) {
    if (!layout.meta?.canvas) return;
    this.canvas ??= new Canvas(this.plot);
    this.shown = { data: [...data], layout: { ...layout } };
    this.canvas.take(this.shown);
    layout.plot_bgcolor = "rgba(0,0,0,0)";
    data.forEach((trace, i) => {
      if (trace.type !== "scatter") data[i] = { type: trace.type, visible: false };
    });
    if (!this.head.live) {
      this.live?.remove();
      this.live = undefined;
      return;
    }
    this.live ??= new Live(this);
    this.live.update(this.head.live, this.head.arrays);
  }

  repaint() {
    if (!this.canvas || this.drawing) return;
    if (this.live?.busy()) this.live.ask();
    else this.canvas.paint();
    this.live?.follow();
  }

  // Says when the picture stands on the screen; tests and benchmarks wait for it.
  painted() {
    const revision = this.head.revision;
    requestAnimationFrame(() => setTimeout(() => {
      this.root.dataset.revision = revision;
      this.root.dataset.painted = performance.now().toFixed(1);
      this.describe();
    }));
  }

  // The numbers in words, for those who cannot see them.
  describe() {
    if (!this.head || !this.root.isConnected) return;
    const { figure, arrays, frames } = this.head;
    const keys = frames ? ["The arrow keys step through the frames, the space bar plays them."] : [];
    this.words.textContent = [...describe(fill(figure.data, arrays, {}), figure.layout), ...keys].join(" ");
  }

  fail(error) {
    this.drawing = false;
    console.error(error);
    this.root.dataset.state = "failed";
    this.message.textContent = `This picture could not be drawn: ${error.message}`;
  }

  resized(now = false) {
    if (!this.head || (!this.drawn && !this.waiting)) return;
    this.measure();
    const { width, height } = this.size();
    if (!width || (width === this.plot._fullLayout?.width && height === this.plot._fullLayout?.height)) return;
    clearTimeout(this.later);
    this.later = setTimeout(() => this.draw(), now ? 0 : 60);
  }

  clicked(event) {
    const point = event.points?.[0];
    if (!this.head.click || !point) return;
    const at = { x: num(point.x), y: num(point.y) };
    // Where the mouse was, not the centre of the cell it hit.
    const { xaxis, yaxis } = point;
    if (event.event && xaxis?.p2d && yaxis?.p2d) {
      const box = this.plot.getBoundingClientRect();
      at.x = xaxis.p2d(event.event.clientX - box.left - xaxis._offset);
      at.y = yaxis.p2d(event.event.clientY - box.top - yaxis._offset);
    }
    this.send("click", { ...at, curve: point.curveNumber, point: point.pointNumber ?? null });
  }

  // --- frames -----------------------------------------------------------------------------------------

  async show(index, tell = true) {
    const frames = this.head?.frames;
    if (!frames || !this.drawn) return;
    this.frame = Math.max(0, Math.min(frames.frames.length - 1, index));
    const { traces, data } = frames.frames[this.frame];
    const colours = this.head.looks[this.lastTheme].colours;
    const filled = data.map((d) => fill(d, this.head.arrays, colours));
    const flat = traces.every((t) => (this.plot.data[t]?.type ?? "scatter") === "scatter");
    this.label();
    if (tell) window.dispatchEvent(new CustomEvent("reshape:frame", { detail: { from: this, group: frames.group, index: this.frame } }));
    await window.Plotly.animate(this.plot, [{ traces, data: filled }], {
      mode: "immediate", transition: { duration: 0 }, frame: { duration: 0, redraw: !flat },
    }).catch(() => {}); // a newer frame took its place
    this.root.dataset.frame = this.frame;
  }

  play() {
    if (this.timer) return this.stop();
    const last = this.head.frames.frames.length - 1;
    if (this.frame >= last) this.show(0);
    const slow = matchMedia("(prefers-reduced-motion: reduce)").matches ? 2 : 1;
    this.timer = setInterval(() => {
      if (this.frame >= last) return this.stop();
      this.show(this.frame + 1);
    }, this.head.frames.pause * slow);
    this.label();
  }

  // A picture that has the focus is stepped through like its buttons do it.
  pressed(event) {
    const frames = this.head?.frames;
    if (!frames || event.ctrlKey || event.metaKey || event.altKey) return;
    const to = { ArrowLeft: this.frame - 1, ArrowRight: this.frame + 1, Home: 0, End: frames.frames.length - 1 }[event.key];
    if (to === undefined && event.key !== " ") return;
    event.preventDefault(); // the page does not scroll meanwhile
    if (to === undefined) return this.play();
    this.stop();
    this.show(to);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = undefined;
    if (this.head) this.label();
  }

  label() {
    const frames = this.head.frames;
    const text = this.tools.querySelector("output");
    if (text) text.ariaLive = this.timer ? "off" : "polite"; // a player that runs is not read aloud
    if (text && frames) text.textContent = frames.labels[this.frame];
    const play = this.tools.querySelector("[data-do=play]");
    if (play) {
      play.innerHTML = this.timer ? ICONS.pause : ICONS.play;
      name(play, this.timer ? "Pause" : "Play");
    }
  }

  // --- tools ------------------------------------------------------------------------------------------

  buttons() {
    const kind = this.head.frames ? "frames" : "plain";
    if (this.tools.dataset.kind !== kind) {
      this.tools.dataset.kind = kind;
      this.tools.replaceChildren();
      if (kind === "frames") {
        this.button("play", "Play", () => this.play());
        this.button("back", "One step back", () => (this.stop(), this.show(this.frame - 1)));
        this.button("step", "One step on", () => (this.stop(), this.show(this.frame + 1)));
        this.button("reset", "Back to the start", () => (this.stop(), this.show(0)));
        this.tools.append(document.createElement("output"));
      }
      const gap = document.createElement("span");
      gap.className = "lab-chart-gap";
      this.tools.append(gap);
      this.button("home", "Reset the view", () => this.resetView());
      this.button("png", "Save as PNG", () => this.save("png"), "PNG");
      this.button("svg", "Save as SVG", () => this.save("svg"), "SVG");
      this.button("full", "Full screen", () => this.fullScreen());
    }
    this.label();
  }

  button(id, label, action, text) {
    const b = document.createElement("button");
    b.type = "button";
    b.dataset.do = id;
    b.innerHTML = text ?? ICONS[id];
    name(b, label);
    b.addEventListener("click", () => Promise.resolve(action()).catch((error) => this.fail(error)));
    this.tools.append(b);
  }

  resetView() {
    // A purged node has no memory of zoom and camera; react then draws the figure's own view.
    window.Plotly.purge(this.plot);
    this.drawn = false;
    return this.draw();
  }

  // A picture for paper: light colours on opaque white, the view as it stands.
  async save(format) {
    const { data, layout } = this.figure("light");
    if (layout.meta?.file) merge(layout, layout.meta.file); // what a file shows besides, such as a legend
    const shown = this.plot._fullLayout;
    for (const id of Object.keys(shown)) {
      if (/^[xy]axis\d*$/.test(id)) layout[id] = { ...layout[id], range: [...shown[id].range], autorange: false };
      if (/^scene\d*$/.test(id)) layout[id] = { ...layout[id], camera: shown[id].camera };
    }
    layout.paper_bgcolor = "#ffffff";
    layout.plot_bgcolor ??= "#ffffff";
    const size = { width: Math.max(640, shown.width), height: shown.height };
    squared(Object.assign(layout, size));
    const url = await window.Plotly.toImage({ data, layout: { ...layout, ...size } }, { format, ...size, scale: format === "png" ? 2 : 1 });
    const link = document.createElement("a");
    link.download = `${this.head.file}.${format}`;
    link.href = url;
    link.click();
  }

  fullScreen() {
    return document.fullscreenElement ? document.exitFullscreen() : this.root.requestFullscreen();
  }
}

function merge(into, from) {
  for (const k in from) {
    const v = from[k];
    if (v && typeof v === "object" && !Array.isArray(v) && !ArrayBuffer.isView(v) && into[k]) merge(into[k], v);
    else into[k] = v;
  }
}

// A picture that uses a wide and tall window: `aspect` times its width plus `extra`, as long as the page's
// head (`above`) and the picture fit the window together, and never less than wanted.
function roomy({ aspect, extra, above }, wanted, width) {
  return Math.round(Math.max(wanted, Math.min(extra + aspect * width, window.innerHeight - above)));
}

// plotly notes a camera when the mouse lets go, and the camera glides on from there on a busy machine.
function keepCameras(plot) {
  for (const [id, scene] of Object.entries(plot._fullLayout ?? {})) {
    if (/^scene\d*$/.test(id)) scene._scene?.saveLayout(plot.layout);
  }
}

// Pairs of axes that share one scale get domains that are square on the screen. Left to plotly's own
// constraints, two linked pairs end up with wider ranges instead.
function squared(layout) {
  const { l, r, t, b } = { ...layout.template.layout.margin, ...layout.margin };
  const across = layout.width - l - r;
  const up = layout.height - t - b;
  for (const [x, y] of layout.meta?.square ?? []) {
    const [left, right] = layout[x].domain ?? [0, 1];
    const [low, high] = layout[y].domain ?? [0, 1];
    const side = Math.min((right - left) * across, (high - low) * up) / 2;
    layout[x].domain = [(left + right) / 2 - side / across, (left + right) / 2 + side / across];
    layout[y].domain = [(low + high) / 2 - side / up, (low + high) / 2 + side / up];
  }
}

function num(v) {
  return typeof v === "number" ? v : null;
}

function name(button, text) {
  button.title = text;
  button.setAttribute("aria-label", text);
}

const icon = (path) => `<svg viewBox="0 0 24 24" width="18" height="18" aria-hidden="true"><path d="${path}" fill="currentColor"/></svg>`;
const ICONS = {
  play: icon("M8 5v14l11-7z"),
  pause: icon("M7 5h4v14H7zM13 5h4v14h-4z"),
  back: icon("M18 6v12l-9-6zM6 6h2v12H6z"),
  step: icon("M6 6v12l9-6zM16 6h2v12h-2z"),
  reset: icon("M12 5a7 7 0 1 1-6.7 5h2.1A5 5 0 1 0 12 7v3L7.5 6 12 2z"),
  home: icon("M12 4 3 11h2.5v8h5v-5h3v5h5v-8H21z"),
  full: icon("M5 5h6v2H7v4H5zm8 0h6v6h-2V7h-4zM5 13h2v4h4v2H5zm12 0h2v6h-6v-2h4z"),
};
