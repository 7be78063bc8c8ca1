// A figure in words: its axes, and for each series where it starts, ends and turns. What a screen reader says
// after the picture's name. Long lists are cut; all numbers are in the CSV of the Export menu.
const MOST = 8; // series

export function describe(data, layout) {
  const said = [];
  const axes = ["x", "y"].map((a) => plain(layout[`${a}axis`]?.title?.text)).filter(Boolean);
  if (axes.length === 2) said.push(`Across: ${axes[0]}. Up: ${axes[1]}.`);
  const shown = data.filter((t) => t.hoverinfo !== "skip" && (t.z ?? t.y)?.length && t.visible !== false);
  for (const t of shown.slice(0, MOST)) said.push(t.z ? field(t) : curve(t));
  if (shown.length > MOST) said.push(`And ${shown.length - MOST} more series.`);
  return said;
}

function curve(t) {
  const y = Array.from(t.y);
  const kept = y.map((v, i) => [t.x?.[i] ?? i, v]).filter(([, v]) => typeof v === "number" && Number.isFinite(v));
  const name = plain(t.name) || "A series";
  if (!kept.length) return `${name}: no numbers.`;
  const at = ([x, v]) => `${number(v)} at ${number(x)}`;
  if (kept.length === 1) return `${name}: ${at(kept[0])}.`;
  const low = kept.reduce((a, b) => (b[1] < a[1] ? b : a));
  const high = kept.reduce((a, b) => (b[1] > a[1] ? b : a));
  return `${name}, ${kept.length} points: from ${at(kept[0])} to ${at(kept.at(-1))}; lowest ${at(low)}, highest ${at(high)}.`;
}

function field(t) {
  let low = Infinity;
  let high = -Infinity;
  const rows = t.z.length && typeof t.z[0] === "object" ? t.z : [t.z];
  for (const row of rows) {
    for (const v of row) {
      if (v < low) low = v;
      if (v > high) high = v;
    }
  }
  const name = plain(t.name) || "A map";
  return low <= high ? `${name}: from ${number(low)} to ${number(high)}.` : `${name}: no numbers.`;
}

function number(v) {
  if (Math.abs(v) < 1e-9) return "0"; // what rounding leaves
  return typeof v === "number" ? String(+v.toPrecision(3)) : plain(String(v));
}

function plain(text) {
  return (text ?? "").replace(/<[^>]*>/g, "").trim();
}
