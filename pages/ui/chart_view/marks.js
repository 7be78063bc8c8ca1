// The marks of a landscape while a point of it is dragged, in the look of plotly's traces of the same names.

// One panel: arrows, examples, lowest points, the query's way, memories. `panel` knows its `side`, the `way` of
// the query and the `lowest` points in plane coordinates (undefined: those of the trace still hold).
export function paintMarks(ctx, panel, place, { scene, before, after }, { data, layout }) {
  const side = { before, after }[panel.side];
  const look = {};
  for (const t of data)
    if (t.type === "scatter" && (t.xaxis ?? "x").replace("x", "xaxis") === panel.x) look[t.name] = t;
  const pixel = ([x, y]) => [place.px(x), place.py(y)];
  const onPlane = (s) => Array.from(s.ax, (x, i) => pixel([x - s.tilt[0], s.ay[i] - s.tilt[1]]));
  const memories = onPlane(side);
  const examples = [];
  for (let j = 0; j < scene.examples.length; j += 2) examples.push(pixel(scene.examples.subarray(j, j + 2)));

  ctx.save();
  ctx.beginPath();
  ctx.rect(place.left, place.top, place.width, place.height);
  ctx.clip();
  const arrow = look["its example"] ?? look["moved by W₁"];
  if (arrow) {
    const starts = panel.side === "after" ? onPlane(before) : Array.from(scene.pairs, (p) => memories[p]);
    const ends = panel.side === "after" ? memories : examples;
    const least = 0.06 * (place.px(panel.heat[0].x.at(-1)) - place.px(panel.heat[0].x[0])); // as charts._marks
    ends.forEach((end, i) => {
      if (Math.hypot(end[0] - starts[i][0], end[1] - starts[i][1]) > least) paintArrow(ctx, starts[i], end, arrow.line);
    });
  }
  examples.forEach((at, j) => paintMark(ctx, at, look.examples.marker, j, "square"));
  const low = look["lowest points"];
  const lowest = panel.lowest ?? Array.from(low.x, (x, i) => [x, low.y[i]]);
  lowest.forEach((at, i) => paintMark(ctx, pixel(at), low.marker, i, ["diamond", "box"][i]));
  const way = panel.way.map(pixel);
  ctx.beginPath();
  way.forEach((at) => ctx.lineTo(...at));
  ctx.strokeStyle = look.query.line.color;
  ctx.lineWidth = look.query.line.width;
  ctx.lineJoin = "round";
  ctx.stroke();
  way.forEach((at, i) => paintMark(ctx, at, { ...look.query.marker, size: i ? 5 : 9 }, i, "disc"));
  paintMark(ctx, way.at(-1), look.state.marker, 0, "ring");
  const { marker, mode, textfont } = look.memories;
  ctx.font = `${textfont?.size}px ${layout.template.layout.font.family}`;
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  memories.forEach((at, i) => {
    paintMark(ctx, at, marker, i, "disc");
    if (!mode.includes("text")) return;
    ctx.fillStyle = textfont.color;
    ctx.fillText(i, at[0], at[1] + 0.5);
  });
  ctx.restore();
}

function paintMark(ctx, [x, y], { size, opacity, color, line }, i, shape) {
  const of = (v) => (typeof v === "object" ? v[i] : v);
  const r = of(size) / 2;
  ctx.globalAlpha = of(opacity) ?? 1;
  ctx.beginPath();
  if (shape === "square" || shape === "box") ctx.rect(x - r, y - r, 2 * r, 2 * r);
  else if (shape === "diamond")
    for (const [a, b] of [[-1.3, 0], [0, -1.3], [1.3, 0], [0, 1.3]]) ctx.lineTo(x + a * r, y + b * r);
  else ctx.arc(x, y, r, 0, 2 * Math.PI);
  ctx.closePath();
  if (shape === "square" || shape === "disc") {
    ctx.fillStyle = color;
    ctx.fill();
  }
  ctx.strokeStyle = line.color;
  ctx.lineWidth = line.width;
  ctx.stroke();
  ctx.globalAlpha = 1;
}

function paintArrow(ctx, from, to, { color, width }) {
  const angle = Math.atan2(to[1] - from[1], to[0] - from[0]);
  const tip = [to[0] - 9 * Math.cos(angle), to[1] - 9 * Math.sin(angle)];
  ctx.globalAlpha = 0.85;
  ctx.strokeStyle = ctx.fillStyle = color;
  ctx.lineWidth = width;
  ctx.beginPath();
  ctx.moveTo(...from);
  ctx.lineTo(...to);
  ctx.stroke();
  ctx.beginPath();
  ctx.moveTo(...tip);
  for (const turn of [-0.46, 0.46]) ctx.lineTo(tip[0] - 10 * Math.cos(angle + turn), tip[1] - 10 * Math.sin(angle + turn));
  ctx.fill();
  ctx.globalAlpha = 1;
}
