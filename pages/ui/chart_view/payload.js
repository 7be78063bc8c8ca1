// Reads the block of bytes that pack() in __init__.py writes.

const TYPES = {
  f8: Float64Array, f4: Float32Array, i4: Int32Array, i2: Int16Array, i1: Int8Array,
  u4: Uint32Array, u2: Uint16Array, u1: Uint8Array,
};

export function unpack(bytes) {
  const length = new DataView(bytes.buffer, bytes.byteOffset, 4).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  // One aligned copy; every array below is a view into it.
  const data = bytes.slice(4 + length).buffer;
  const arrays = head.arrays.map(([type, shape, offset]) => {
    const count = shape.reduce((a, b) => a * b, 1);
    const flat = new TYPES[type](data, offset, count);
    if (shape.length < 2) return flat;
    return Array.from({ length: shape[0] }, (_, i) => flat.subarray(i * shape[1], (i + 1) * shape[1]));
  });
  head.arrays = arrays;
  return head;
}

// A fresh copy of a node with arrays put back and colour tokens resolved.
export function fill(node, arrays, colours) {
  if (typeof node === "string") {
    return node.startsWith("var(--") ? (colours[node.slice(6, -1)] ?? node) : node;
  }
  if (Array.isArray(node)) return node.map((v) => fill(v, arrays, colours));
  if (node && typeof node === "object") {
    if ("$array" in node) return arrays[node.$array];
    const out = {};
    for (const k in node) out[k] = fill(node[k], arrays, colours);
    return out;
  }
  return node;
}
