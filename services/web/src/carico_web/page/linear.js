// Linear algebra of the model: small symmetric matrices.

// Eigenvalues and vectors, largest first, by Jacobi's rotations.
export function eigen(matrix) {
  const n = matrix.length;
  const a = matrix.map((row) => [...row]);
  const v = matrix.map((_, i) => matrix.map((__, j) => (i === j ? 1 : 0)));
  for (let sweep = 0; sweep < 30 && offDiagonal(a) > 1e-24; sweep += 1) {
    for (let p = 0; p < n; p += 1) for (let q = p + 1; q < n; q += 1) rotate(a, v, p, q);
  }
  const order = a.map((_, i) => i).sort((i, j) => a[j][j] - a[i][i]);
  return order.map((i) => ({ value: a[i][i], vector: v.map((row) => row[i]) }));
}

function offDiagonal(a) {
  let sum = 0;
  for (let p = 0; p < a.length; p += 1) for (let q = p + 1; q < a.length; q += 1) sum += a[p][q] ** 2;
  return sum;
}

function rotate(a, v, p, q) {
  if (Math.abs(a[p][q]) < 1e-300) return;
  const theta = (a[q][q] - a[p][p]) / (2 * a[p][q]);
  const t = (theta >= 0 ? 1 : -1) / (Math.abs(theta) + Math.sqrt(theta * theta + 1));
  const c = 1 / Math.sqrt(t * t + 1);
  const s = t * c;
  for (let k = 0; k < a.length; k += 1) [a[k][p], a[k][q]] = [c * a[k][p] - s * a[k][q], s * a[k][p] + c * a[k][q]];
  for (let k = 0; k < a.length; k += 1) [a[p][k], a[q][k]] = [c * a[p][k] - s * a[q][k], s * a[p][k] + c * a[q][k]];
  for (const row of v) [row[p], row[q]] = [c * row[p] - s * row[q], s * row[p] + c * row[q]];
}

// sigma_1 u_1 of a Gram matrix: what typical recent work uses, with the sign that makes its sum positive.
export function mainDirection(gram) {
  if (gram.length === 0) return [];
  const [first] = eigen(gram);
  const sigma = Math.sqrt(Math.max(0, first.value));
  const sign = first.vector.reduce((sum, x) => sum + x, 0) < 0 ? -1 : 1;
  return first.vector.map((x) => sign * sigma * x);
}

export function norm(vector) {
  return Math.sqrt(vector.reduce((sum, x) => sum + x * x, 0));
}

// Degrees between two directions, 0 to 180; null if one is zero.
export function angle(a, b) {
  const size = norm(a) * norm(b);
  if (!(size > 1e-12)) return null;
  const cosine = a.reduce((sum, x, i) => sum + x * b[i], 0) / size;
  return (Math.acos(Math.min(1, Math.max(-1, cosine))) * 180) / Math.PI;
}
