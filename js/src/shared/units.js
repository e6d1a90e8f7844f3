// Numbers to text, as notebook_prof.units writes them.
/** @type {[string, number][]} */
const TIME_UNITS = [
  ['s', 1e9],
  ['ms', 1e6],
  ['µs', 1e3],
  ['ns', 1],
];

/**
 * @param {number} value
 * @param {number} digits
 */
export function significant(value, digits, keepZeros = false) {
  if (value === 0) return '0';
  const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(value))));
  const text = value.toFixed(Math.min(decimals, 12));
  return text.includes('.') && !keepZeros ? text.replace(/\.?0+$/, '') : text;
}

/**
 * In a column all digits are kept: 95.0 ms under 12.3 ms.
 * @param {number} ns
 */
export const formatTimeCell = (ns) => formatTime(ns, 3, true);

/** @param {number} ns */
export function formatTime(ns, digits = 3, keepZeros = false) {
  if (!Number.isFinite(ns)) return '–';
  const sign = ns < 0 ? '−' : '',
    size = Math.abs(ns);
  if (size >= CLOCK_FROM_NS) {
    if (keepZeros) return formatClock(ns, 1e9); // short enough for a column
    const hours = size >= HOURS_FROM_NS,
      [unit, below] = hours ? ['h', 'min'] : ['min', 's'],
      all = Math.round(size / (hours ? 60e9 : 1e9)),
      rest = all % 60;
    return `${sign}${Math.floor(all / 60)} ${unit}${rest ? ` ${rest} ${below}` : ''}`;
  }
  for (const [unit, scale] of TIME_UNITS) {
    if (unit === 'ns' || Number((size / scale).toPrecision(digits)) >= 1)
      return `${sign}${significant(size / scale, digits, keepZeros && size > 0)} ${unit}`;
  }
  return '';
}

// A position on an axis of minutes or hours, as notebook_prof.units.format_clock writes it.
const CLOCK_FROM_NS = 120e9;
const HOURS_FROM_NS = 3599.5e9; // rounds to an hour
/**
 * @param {number} ns
 * @param {number} resolution
 */
export function formatClock(ns, resolution, unitOf = ns) {
  const hours = Math.abs(unitOf) >= 3600e9,
    decimals = Math.min(9, Math.max(0, Math.ceil(-Math.log10(Math.max(resolution, 1e-3) / 1e9) - 1e-9))),
    whole = hours && resolution >= 60e9 ? 60 : 1,
    size = Math.abs(ns) / 1e9,
    total = decimals ? Math.round(size * 10 ** decimals) / 10 ** decimals : Math.round(size / whole) * whole,
    minutes = Math.floor(total / 60),
    sign = ns < 0 && total ? '−' : '',
    after = (total - 60 * minutes).toFixed(decimals).padStart(decimals ? decimals + 3 : 2, '0');
  if (!hours) return `${sign}${minutes}:${after} min`;
  const clock = `${sign}${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, '0')}`;
  return whole === 60 ? `${clock} h` : `${clock}:${after} h`;
}

/**
 * A position on the time axis: as many digits as the distance between ticks (or pixels) deserves.
 * @param {number} ns
 * @param {number} resolution
 */
export function formatInstant(ns, resolution, unitOf = ns) {
  if (Math.abs(unitOf) >= CLOCK_FROM_NS) return formatClock(ns, resolution, unitOf);
  const [unit, scale] = TIME_UNITS.find(([, s]) => Math.abs(unitOf) >= s) ?? ['ns', 1];
  const decimals = Math.max(0, Math.ceil(-Math.log10(Math.max(resolution, 1e-3) / scale) - 1e-9));
  return `${(ns / scale).toFixed(Math.min(decimals, 9))} ${unit}`.replace(/^-/, '−');
}

/**
 * A difference of times, with its sign.
 * @param {number} ns
 */
export const formatDelta = (ns) => (ns ? `${ns < 0 ? '−' : '+'}${formatTimeCell(Math.abs(ns))}` : '0');

/** @param {number} count */
export function formatBytes(count, digits = 3) {
  if (!Number.isFinite(count)) return '–';
  const sign = count < 0 ? '−' : '';
  let size = Math.abs(count);
  for (const unit of ['B', 'KiB', 'MiB', 'GiB', 'TiB']) {
    if (size < 1023.5 || unit === 'TiB') return `${sign}${significant(size, digits)} ${unit}`;
    size /= 1024;
  }
  return '';
}

/**
 * Ticks of an axis, all in the unit of the largest.
 * @param {number[]} ticks bytes
 */
export function byteTicks(ticks) {
  const largest = Math.max(...ticks.map(Math.abs), 1),
    power = Math.min(4, Math.floor(Math.log2(largest) / 10)),
    unit = ['B', 'KiB', 'MiB', 'GiB', 'TiB'][power];
  return ticks.map((t) => (t === 0 ? '0' : `${significant(t / 1024 ** power, 3)} ${unit}`));
}

const COUNTS = new Intl.NumberFormat('en-US', {maximumFractionDigits: 0}); // made once: toLocaleString makes one a number
/** @param {number} n */
export const formatCount = (n) => COUNTS.format(Math.round(n));

/** @param {number} share */
export function formatShare(share) {
  const percent = 100 * share;
  return percent > 0 && percent < 0.05 ? '<0.1 %' : `${percent.toFixed(1)} %`;
}

/**
 * "3–5, 8" of [3, 4, 5, 8]
 * @param {number[]} numbers
 */
export function formatNumbers(numbers) {
  /** @type {[number, number][]} */
  const parts = [];
  for (const n of [...numbers].sort((p, q) => p - q)) {
    const last = parts[parts.length - 1];
    if (last && n === last[1] + 1) last[1] = n;
    else parts.push([n, n]);
  }
  const text = parts
    .slice(0, 4)
    .map(([a, b]) => (a === b ? `${a}` : `${a}–${b}`))
    .join(', ');
  return parts.length > 4 ? `${text} …` : text;
}

/**
 * A value of a counter.
 * @param {number} value
 * @param {string} unit
 */
export function formatQuantity(value, unit) {
  if (unit === 'bytes') return formatBytes(value);
  if (unit === '1' || unit === 'share') return formatShare(value);
  const text = Math.abs(value) >= 1e4 ? formatCount(value) : significant(value, 3);
  return `${text}${unit ? ` ${unit}` : ''}`;
}

/**
 * From one value of a counter to another, in one unit.
 * @param {number} low
 * @param {number} high
 * @param {string} unit
 */
export function formatRange(low, high, unit) {
  const [from, to] = unit === 'bytes' ? byteTicks([low, high]) : [formatQuantity(low, unit), formatQuantity(high, unit)];
  const [number, own] = from.split(' ');
  return `${own && to.endsWith(` ${own}`) ? number : from} – ${to}`;
}
