// Paints the heatmaps and contour lines of a figure on one canvas under plotly's axes and marks: by far the
// quickest way, and the same one while a point is dragged (live.js) as when it rests.

export class Canvas {
  constructor(plot) {
    this.plot = plot;
    this.node = document.createElement("canvas");
    this.node.className = "lab-chart-canvas";
    plot.before(this.node);
    this.ctx = this.node.getContext("2d");
    this.small = document.createElement("canvas"); // a heatmap, one pixel a cell
  }

  // The layers of a filled figure by subplot: [{ x, y (names of axes), heat: [trace], lines: [trace] }].
  take({ data, layout }) {
    this.layout = layout;
    const panels = new Map();
    for (const trace of data) {
      if (trace.type !== "heatmap" && trace.type !== "contour") continue;
      const [x, y] = [trace.xaxis ?? "x", trace.yaxis ?? "y"].map((a) => a.replace(/^[xy]/, "$&axis"));
      if (!panels.has(x)) panels.set(x, { x, y, heat: [], lines: [] });
      panels.get(x)[trace.type === "heatmap" ? "heat" : "lines"].push(trace);
    }
    this.panels = [...panels.values()];
    return this.panels;
  }

  // Where a subplot lies on the screen now, and how its coordinates become pixels.
  place(panel) {
    const full = this.plot._fullLayout;
    const [x, y] = [full[panel.x], full[panel.y]];
    const [[x0, x1], [y0, y1]] = [x.range, y.range].map((r) => r.map(Number));
    return {
      left: x._offset, top: y._offset, width: x._length, height: y._length, range: [x0, x1, y0, y1],
      px: (v) => x._offset + (v - x0) / (x1 - x0) * x._length,
      py: (v) => y._offset + (y1 - v) / (y1 - y0) * y._length,
      x: (p) => x0 + (p - x._offset) / x._length * (x1 - x0),
      y: (p) => y1 - (p - y._offset) / y._length * (y1 - y0),
    };
  }

  // Paints all panels. `marks(ctx, panel, place)` paints what lies over them, if plotly does not.
  paint(marks) {
    const full = this.plot._fullLayout;
    if (!full || !this.panels?.every((p) => full[p.x])) return;
    const [width, height, dense] = [full.width, full.height, window.devicePixelRatio || 1];
    const { node, ctx } = this;
    if (node.width !== Math.round(width * dense) || node.height !== Math.round(height * dense)) {
      node.width = Math.round(width * dense);
      node.height = Math.round(height * dense);
      Object.assign(node.style, { width: `${width}px`, height: `${height}px` });
    }
    ctx.setTransform(dense, 0, 0, dense, 0, 0);
    ctx.clearRect(0, 0, width, height);
    for (const panel of this.panels) {
      const place = this.place(panel);
      ctx.save();
      ctx.beginPath();
      ctx.rect(place.left, place.top, place.width, place.height);
      ctx.clip();
      ctx.fillStyle = this.layout.plot_bgcolor;
      ctx.fillRect(place.left, place.top, place.width, place.height);
      for (const trace of panel.heat) this.heat(trace, place);
      for (const trace of panel.lines) this.lines(trace, place);
      ctx.restore();
      marks?.(ctx, panel, place);
    }
  }

  heat(trace, place) {
    const { z, x, y } = trace;
    const [rows, columns] = [z.length, z[0].length];
    const { cmin, cmax, colorscale } = this.layout[trace.coloraxis]
      ?? { cmin: trace.zmin, cmax: trace.zmax, colorscale: trace.colorscale };
    const table = colours(colorscale);
    const image = new ImageData(columns, rows);
    const pixels = new Uint32Array(image.data.buffer);
    const step = (table.length - 1) / (cmax - cmin || 1);
    for (let i = 0; i < rows; i++) {
      const row = z[i];
      const at = (rows - 1 - i) * columns; // up is down
      for (let j = 0; j < columns; j++) {
        const k = Math.round((row[j] - cmin) * step);
        if (k === k) pixels[at + j] = table[k < 0 ? 0 : k < table.length ? k : table.length - 1]; // NaN: a gap
      }
    }
    const { small, ctx } = this;
    [small.width, small.height] = [columns, rows];
    small.getContext("2d").putImageData(image, 0, 0);
    // The centre of a pixel is its point of the grid.
    const [dx, dy] = [(x[columns - 1] - x[0]) / (columns - 1) / 2, (y[rows - 1] - y[0]) / (rows - 1) / 2];
    const [left, right] = [place.px(x[0] - dx), place.px(x[columns - 1] + dx)];
    const [top, bottom] = [place.py(y[rows - 1] + dy), place.py(y[0] - dy)];
    ctx.globalAlpha = trace.opacity ?? 1;
    ctx.imageSmoothingEnabled = trace.zsmooth !== false;
    ctx.drawImage(small, left, top, right - left, bottom - top);
    ctx.globalAlpha = 1;
  }

  // Marching squares: a level crosses an edge of a cell where its ends lie on two sides of it.
  lines(trace, place) {
    const { z, x, y, contours: { start, size }, line } = trace;
    const { ctx } = this;
    ctx.beginPath();
    const px = Array.from(x, place.px);
    const py = Array.from(y, place.py);
    const between = (p, q, u, v, level) => p + (level - u) / (v - u) * (q - p);
    let ends = 0; // two a line; a saddle has four
    const end = (ex, ey) => (ends++ % 2 ? ctx.lineTo(ex, ey) : ctx.moveTo(ex, ey));
    for (let i = 0; i + 1 < z.length; i++) {
      const [low, high] = [z[i], z[i + 1]];
      for (let j = 0; j + 1 < low.length; j++) {
        const [a, b, c, d] = [low[j], low[j + 1], high[j + 1], high[j]];
        const least = Math.min(a, b, c, d);
        const most = Math.max(a, b, c, d);
        if (!(most > least)) continue; // flat, or not finite
        for (let k = Math.ceil((least - start) / size); start + k * size < most; k++) {
          const level = start + k * size;
          if ((a < level) !== (b < level)) end(between(px[j], px[j + 1], a, b, level), py[i]);
          if ((b < level) !== (c < level)) end(px[j + 1], between(py[i], py[i + 1], b, c, level));
          if ((d < level) !== (c < level)) end(between(px[j], px[j + 1], d, c, level), py[i + 1]);
          if ((a < level) !== (d < level)) end(px[j], between(py[i], py[i + 1], a, d, level));
        }
      }
    }
    ctx.strokeStyle = line.color;
    ctx.lineWidth = line.width;
    ctx.stroke();
  }
}

const tables = new Map(); // colour scale as JSON -> 1024 colours as little-endian RGBA

function colours(scale) {
  const name = JSON.stringify(scale);
  if (tables.has(name)) return tables.get(name);
  const probe = document.createElement("canvas").getContext("2d");
  const stops = scale.map(([at, colour]) => {
    probe.fillStyle = colour;
    return [at, ...[1, 3, 5].map((i) => parseInt(probe.fillStyle.slice(i, i + 2), 16))];
  });
  const table = Uint32Array.from({ length: 1024 }, (_, i) => {
    const at = i / 1023;
    const k = Math.max(1, stops.findIndex((s) => s[0] >= at));
    const [low, high] = [stops[k - 1], stops[k]];
    const share = high[0] > low[0] ? (at - low[0]) / (high[0] - low[0]) : 1;
    const [r, g, b] = [1, 2, 3].map((c) => Math.round(low[c] + share * (high[c] - low[c])));
    return (255 << 24) | (b << 16) | (g << 8) | r;
  });
  tables.set(name, table);
  return table;
}
