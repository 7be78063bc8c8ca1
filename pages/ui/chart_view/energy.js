// The engine of core/hopfield.py and core/reshape.py, as much of it as a dragged point needs, in float64.
// tests/browser/test_live.py holds it to Python's numbers. Points are rows of flat arrays.

// Families as core.hopfield.ENERGIES names them: potential h(z) and weights w = grad h, from scores z of length
// M. Weights are written over `w`; the potential is returned.
const FAMILIES = { lse_dot: softmax, lse_l2: softmax, polynomial: power, sparse: sparsemax };
const NEGLIGIBLE = -40; // exp(-40) is below the rounding of a sum of at least 1

function softmax(z, w, M, beta) {
  let top = -Infinity;
  for (let i = 0; i < M; i++) if (z[i] > top) top = z[i];
  let sum = 0;
  for (let i = 0; i < M; i++) {
    const far = beta * (z[i] - top);
    sum += w[i] = far < NEGLIGIBLE ? 0 : Math.exp(far);
  }
  for (let i = 0; i < M; i++) w[i] /= sum;
  return top + Math.log(sum) / beta;
}

function power(z, w, M, beta) {
  let top = 0;
  for (let i = 0; i < M; i++) if (z[i] > top) top = z[i];
  if (top === 0) return w.fill(0, 0, M), 0;
  const least = Math.exp(NEGLIGIBLE / beta);
  let sum = 0;
  for (let i = 0; i < M; i++) {
    const ratio = z[i] / top;
    w[i] = ratio > least ? ratio ** beta : 0;
    sum += w[i] * ratio;
  }
  const shrink = sum ** (-beta / (1 + beta));
  for (let i = 0; i < M; i++) w[i] *= shrink;
  return top * sum ** (1 / (1 + beta));
}

let near = new Float64Array(64); // logits within 1 of the largest, falling: all others have weight 0

function sparsemax(z, w, M, beta) {
  if (near.length < M) near = new Float64Array(M);
  let top = -Infinity;
  for (let i = 0; i < M; i++) if (z[i] > top) top = z[i];
  let count = 0;
  for (let i = 0; i < M; i++) {
    const logit = w[i] = beta * (z[i] - top);
    if (logit <= -1) continue;
    let k = count++;
    for (; k > 0 && near[k - 1] < logit; k--) near[k] = near[k - 1];
    near[k] = logit;
  }
  let tau = -1;
  for (let k = 0, sum = 0; k < count && 1 + k * near[k] > sum; k++) {
    sum += near[k];
    tau = (sum - 1) / (k + 1);
  }
  let support = 0;
  for (let i = 0; i < M; i++) {
    if (w[i] > tau) support += w[i] * w[i] - tau * tau;
    w[i] = Math.max(w[i] - tau, 0);
  }
  return top + (support + 1) / 2 / beta;
}

// One landscape in the coordinates of the picture's plane. `memories` is flat (M, D), `plane` has `origin` (D)
// and `basis` (D, 2), both flat.
export class Landscape {
  constructor(family, beta, memories, M, plane) {
    const D = memories.length / M;
    Object.assign(this, { family, beta, memories, M, D, plane, weigh: FAMILIES[family] });
    this.z = new Float64Array(M);
    this.w = new Float64Array(M);
    this.ax = new Float64Array(M); // scores are ax x + ay y + level
    this.ay = new Float64Array(M);
    this.level = new Float64Array(M);
    this.bias = new Float64Array(M);
    const { origin, basis } = plane;
    let longest = 0;
    for (let i = 0; i < M; i++) {
      let square = 0;
      for (let d = 0; d < D; d++) {
        const v = memories[i * D + d];
        square += v * v;
        this.ax[i] += v * basis[2 * d];
        this.ay[i] += v * basis[2 * d + 1];
        this.level[i] += v * origin[d];
      }
      longest = Math.max(longest, square);
      if (family === "lse_l2") this.bias[i] = -square / 2;
      this.level[i] += this.bias[i];
    }
    this.norm = Math.sqrt(longest);
    this.constant = { lse_dot: Math.log(M) / beta + longest / 2, lse_l2: Math.log(M) / beta,
      polynomial: longest / 2, sparse: (1 - 1 / M) / (2 * beta) + longest / 2 }[family];
    this.tilt = [0, 0];
    for (let d = 0; d < D; d++) {
      this.tilt[0] += origin[d] * basis[2 * d];
      this.tilt[1] += origin[d] * basis[2 * d + 1];
      this.constant += origin[d] * origin[d] / 2;
    }
  }

  energy(x, y) {
    const { z, w, M, ax, ay, level, tilt } = this;
    for (let i = 0; i < M; i++) z[i] = ax[i] * x + ay[i] * y + level[i];
    return x * x / 2 + x * tilt[0] + y * y / 2 + y * tilt[1] - this.weigh(z, w, M, this.beta) + this.constant;
  }

  // Energies at every (xs[j], ys[i]), `z[i][j]`; with `flow` also where one update leads, `tx`, `ty`, row by row.
  grid(xs, ys, flow = false) {
    const [G, H] = [xs.length, ys.length];
    const field = { xs, ys, z: Array.from(ys, () => new Float64Array(G)) };
    if (flow) Object.assign(field, { tx: new Float64Array(G * H), ty: new Float64Array(G * H) });
    if (!this.family.startsWith("lse") || !this.product(field)) this.pointwise(field);
    return field;
  }

  pointwise({ xs, ys, z, tx, ty }) {
    const { M, w, ax, ay } = this;
    for (let i = 0, at = 0; i < ys.length; i++)
      for (let j = 0; j < xs.length; j++, at++) {
        z[i][j] = this.energy(xs[j], ys[i]);
        if (!tx) continue;
        for (let k = 0; k < M; k++) {
          if (w[k] === 0) continue;
          tx[at] += w[k] * ax[k];
          ty[at] += w[k] * ay[k];
        }
      }
  }

  // exp(beta (ax x + ay y + level)) is a product of a function of x and one of y: G + H rows of exponentials
  // instead of G H. False where their range could leave float64 (large beta), see core.landscape._lse_grid.
  product({ xs, ys, z, tx, ty }) {
    const { M, ax, ay, level, beta, tilt, constant } = this;
    const [G, H] = [xs.length, ys.length];
    const middle = (v) => (v.reduce((a, b) => Math.max(a, b)) + v.reduce((a, b) => Math.min(a, b))) / 2;
    const [mx, my, cx, cy] = [middle(ax), middle(ay), (xs[0] + xs[G - 1]) / 2, (ys[0] + ys[H - 1]) / 2];
    const widest = (v, m) => v.reduce((most, a) => Math.max(most, Math.abs(a - m)), 0);
    if (beta * (widest(ax, mx) * (xs[G - 1] - cx) + widest(ay, my) * (ys[H - 1] - cy)) > 300) return false;
    let top = -Infinity;
    for (let k = 0; k < M; k++) top = Math.max(top, ax[k] * cx + ay[k] * cy + level[k]);
    const inX = new Float64Array(G * M);
    for (let j = 0; j < G; j++)
      for (let k = 0; k < M; k++) inX[j * M + k] = Math.exp(beta * (ax[k] - mx) * (xs[j] - cx));
    const inY = new Float64Array(M);
    for (let i = 0, at = 0; i < H; i++) {
      const y = ys[i];
      for (let k = 0; k < M; k++)
        inY[k] = Math.exp(beta * ((ay[k] - my) * (y - cy) + ax[k] * cx + ay[k] * cy + level[k] - top));
      for (let j = 0; j < G; j++, at++) {
        let sum = 0;
        const from = j * M;
        for (let k = 0; k < M; k++) sum += inX[from + k] * inY[k];
        const x = xs[j];
        const potential = Math.log(sum) / beta + top + mx * (x - cx) + my * (y - cy);
        z[i][j] = x * x / 2 + x * tilt[0] + y * y / 2 + y * tilt[1] - potential + constant;
        if (!tx) continue;
        let sx = 0;
        let sy = 0;
        for (let k = 0; k < M; k++) {
          const share = inX[from + k] * inY[k];
          sx += share * ax[k];
          sy += share * ay[k];
        }
        tx[at] = sx / sum;
        ty[at] = sy / sum;
      }
    }
    return true;
  }

  // The states of retrieval on the plane, [x, y] each, from a point of it to the fixed point, as core.retrieve.
  path(x, y, steps = 300, tolerance = 1e-9) {
    const { M, D, ax, ay, tilt, z, w, bias } = this;
    this.energy(x, y);
    const path = [[x, y]];
    const last = new Float64Array(M);
    for (let step = 0; step < steps; step++) {
      last.set(w);
      let [px, py] = [-tilt[0], -tilt[1]];
      for (let i = 0; i < M; i++) {
        px += last[i] * ax[i];
        py += last[i] * ay[i];
      }
      path.push([px, py]);
      if (D === 2) this.energy(px, py); // every state lies on the plane
      else {
        const gram = this.gram();
        for (let i = 0; i < M; i++) {
          z[i] = bias[i];
          for (let j = 0; j < M; j++) z[i] += gram[i * M + j] * last[j];
        }
        this.weigh(z, w, M, this.beta);
      }
      let moved = 0;
      for (let i = 0; i < M; i++) moved += Math.abs(w[i] - last[i]);
      if (moved <= tolerance) break;
    }
    return path;
  }

  gram() {
    if (this.products) return this.products;
    const { M, D, memories } = this;
    this.products = new Float64Array(M * M);
    for (let i = 0; i < M; i++)
      for (let j = 0; j <= i; j++) {
        let sum = 0;
        for (let d = 0; d < D; d++) sum += memories[i * D + d] * memories[j * D + d];
        this.products[i * M + j] = this.products[j * M + i] = sum;
      }
    return this.products;
  }

  // Which memory retrieval from every (xs[j], ys[i]) ends at, -1 where it ends at a mixture or at none. In two
  // dimensions only. Updates are read off `field`, a finer grid with its flow, between its points. A way that
  // enters a cell of it that an earlier way went through ends where that one did; ends are followed exactly.
  basins(xs, ys, field) {
    const { tx, ty } = field;
    const [G, H] = [field.xs.length, field.ys.length];
    const [x0, y0] = [field.xs[0], field.ys[0]];
    const [dx, dy] = [(field.xs[G - 1] - x0) / (G - 1), (field.ys[H - 1] - y0) / (H - 1)];
    const UNKNOWN = -2;
    const known = new Int16Array(G * H).fill(UNKNOWN);
    const passed = new Int32Array(400);
    const [close, exact] = [1e-8 * this.norm ** 2, 1e-12 * this.norm ** 2];
    const { M, ax, ay, w } = this;
    const inside = (v, count) => Math.max(0, Math.min(count - 1, Math.round(v)));
    const cell = (x, y) => inside((y - y0) / dy, H) * G + inside((x - x0) / dx, G);
    const end = (x, y) => {
      let count = 0;
      let label = UNKNOWN;
      let exactly = false;
      let more = 20; // exact steps: what still creeps then does so to a mixture
      while (count < passed.length) {
        let [nx, ny] = [0, 0];
        if (exactly) {
          this.energy(x, y);
          for (let k = 0; k < M; k++) {
            nx += w[k] * ax[k];
            ny += w[k] * ay[k];
          }
        } else {
          const u = Math.max(0, Math.min(G - 1.000001, (x - x0) / dx));
          const v = Math.max(0, Math.min(H - 1.000001, (y - y0) / dy));
          const [j, i] = [u | 0, v | 0];
          const [a, b, at] = [u - j, v - i, i * G + j];
          const [p, q, r, s] = [(1 - a) * (1 - b), a * (1 - b), (1 - a) * b, a * b];
          nx = p * tx[at] + q * tx[at + 1] + r * tx[at + G] + s * tx[at + G + 1];
          ny = p * ty[at] + q * ty[at + 1] + r * ty[at + G] + s * ty[at + G + 1];
        }
        const moved = (nx - x) * (nx - x) + (ny - y) * (ny - y);
        x = nx;
        y = ny;
        const near = cell(x, y);
        label = known[near];
        if (label !== UNKNOWN) break;
        passed[count++] = near;
        if (exactly) {
          if (moved < exact || --more === 0) break;
        } else exactly = moved < close || count > 60;
      }
      if (label === UNKNOWN) {
        this.energy(x, y);
        label = winner(w, M);
      }
      while (count > 0) known[passed[--count]] = label;
      return label;
    };
    return Array.from(ys, (y) => Int16Array.from(xs, (x) => end(x, y)));
  }
}

// The memory that holds the weights alone, by the rule of core.hopfield.classify; else -1.
function winner(w, M) {
  let [total, best] = [0, 0];
  for (let i = 0; i < M; i++) {
    total += w[i];
    if (w[i] > w[best]) best = i;
  }
  if (total === 0) return -1;
  let entropy = 0;
  for (let i = 0; i < M; i++) if (w[i] > 0) entropy -= (w[i] / total) * Math.log(w[i] / total);
  return Math.exp(entropy) < 1.5 ? best : -1;
}

// W1 of core.reshape in two dimensions, row by row: sends `ghosts` to `examples`, both flat (t, 2). One rotation
// makes the two columns of the ghosts orthogonal; their lengths are then the singular values.
export function reshapingMap(examples, ghosts, ridge, tolerance) {
  const t = ghosts.length / 2;
  const u = Float64Array.from({ length: t }, (_, j) => ghosts[2 * j]);
  const v = Float64Array.from({ length: t }, (_, j) => ghosts[2 * j + 1]);
  let [c, s] = [1, 0]; // the rotation so far: right singular vectors (c, -s) and (s, c)
  for (let sweep = 0; sweep < 8; sweep++) {
    let [uu, vv, uv] = [0, 0, 0];
    for (let j = 0; j < t; j++) {
      uu += u[j] * u[j];
      vv += v[j] * v[j];
      uv += u[j] * v[j];
    }
    if (Math.abs(uv) <= 1e-17 * Math.sqrt(uu * vv) || uv === 0) break;
    const tan = 2 * uv / (vv - uu + (vv >= uu ? 1 : -1) * Math.hypot(vv - uu, 2 * uv));
    const cos = 1 / Math.hypot(1, tan);
    const sin = cos * tan;
    for (let j = 0; j < t; j++) [u[j], v[j]] = [cos * u[j] - sin * v[j], sin * u[j] + cos * v[j]];
    [c, s] = [cos * c - sin * s, sin * c + cos * s];
  }
  const sizes = [u, v].map((column) => Math.hypot(...column));
  const W = [0, 0, 0, 0];
  [[u, c, -s], [v, s, c]].forEach(([column, right0, right1], k) => {
    if (!(sizes[k] > tolerance * Math.max(...sizes))) return;
    const filter = 1 / (sizes[k] ** 2 + ridge); // sigma / (sigma^2 + ridge) over the sigma of the left vector
    for (let d = 0; d < 2; d++) {
      let sum = 0;
      for (let j = 0; j < t; j++) sum += examples[2 * j + d] * column[j];
      W[2 * d] += sum * filter * right0;
      W[2 * d + 1] += sum * filter * right1;
    }
  });
  return W;
}

function mostSimilar(memories, [x, y]) {
  let [best, most] = [0, -Infinity];
  for (let i = 0; 2 * i < memories.length; i++) {
    const dot = memories[2 * i] * x + memories[2 * i + 1] * y;
    if (dot > most) [best, most] = [i, dot];
  }
  return best;
}

// Both landscapes of a scene, before and after. `scene` is what Python sent, with what is dragged changed in it:
// memories (M, D), examples (t, 2), pairs (t), query (2) on the plane, placed, lemma, family, beta, strength,
// ridge, tolerance, plane. In more than two dimensions the map does not change, and `full` has W1 on all memories.
export function sides(scene) {
  const { memories, M, family, beta, strength, plane } = scene;
  const D = memories.length / M;
  let { full, examples } = scene;
  if (D === 2) {
    const target = scene.placed ? mostSimilar(memories, scene.query) : 0;
    const pairs = Array.from(scene.pairs);
    examples = examples.slice();
    if (scene.lemma) {
      if (!pairs.includes(target)) pairs[pairs.length - 1] = target;
      examples.set(scene.query, 2 * pairs.indexOf(target));
    }
    const ghosts = Float64Array.from(pairs.flatMap((p) => [memories[2 * p], memories[2 * p + 1]]));
    const W = reshapingMap(examples, ghosts, scene.ridge, scene.tolerance);
    full = new Float64Array(2 * M);
    for (let i = 0; i < 2 * M; i += 2) {
      full[i] = W[0] * memories[i] + W[1] * memories[i + 1];
      full[i + 1] = W[2] * memories[i] + W[3] * memories[i + 1];
    }
    scene = { ...scene, pairs, examples };
  }
  const after = memories.map((v, i) => v + strength * (full[i] - v));
  return {
    scene,
    before: new Landscape(family, beta, memories, M, plane),
    after: new Landscape(family, beta, after, M, plane),
  };
}
