# The median of v[1] to v[m], which are put in order.
function median(m, v,   i, j, x) {
  for (i = 2; i <= m; i++) {
    x = v[i]
    for (j = i; j > 1 && v[j - 1] > x; j--) v[j] = v[j - 1]
    v[j] = x
  }
  return m % 2 ? v[(m + 1) / 2] : (v[m / 2] + v[m / 2 + 1]) / 2
}
