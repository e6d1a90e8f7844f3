// The filter language in a report: twin of notebook_prof/selection/query.py (parser) and selection/frames.py (rows).
// tests/browser/test_filter_twin.py holds both to one corpus.
const TIMES = ['self', 'total', 'device', 'time', 'dur', 'mean', 'avg', 'min', 'max', 'host', 'gap'],
  NUMBERS = ['count', 'share', 'flops', 'bytes', 'bandwidth', 'intensity', 'depth', 'stream', 'rank'],
  EXACT = ['category', 'phase', 'type', 'kind'],
  PARTS = ['name', 'module', 'dtype', 'shapes', 'file', 'thread'],
  FIELDS = [...TIMES, ...NUMBERS, ...EXACT, ...PARTS, 'step'],
  COMPARED = '(>=|<=|!=|>|<|=)';
const TOKEN = /\/(?:\\.|[^/\\])+\/(?=\s|$)|"[^"]*"|\S+/g,
  SPACED = new RegExp(
    `\\b(${[...TIMES, ...NUMBERS].join('|')})\\s*${COMPARED}\\s*([\\d.]+)\\s+(ns|us|µs|ms|s|min|%|[KMGT]i?B)(?=\\s|$)`,
    'g',
  ),
  GAPS = new RegExp(`\\b(${FIELDS.join('|')})\\s*${COMPARED}\\s*(?=\\S)`, 'g'),
  CONDITION = new RegExp(`^([A-Za-z_]+)${COMPARED}(.+)$`),
  NUMBER = '([+-]?(?:\\d+\\.?\\d*|\\.\\d+)(?:[eE][+-]?\\d+)?)',
  QUANTITY = new RegExp(`^${NUMBER}\\s*(%|[KMGTP]?i?B|[KMGTP])?$`),
  DURATION = new RegExp(`^\\s*${NUMBER}\\s*([^\\d\\s]*)\\s*$`),
  UNIT_NS = {ns: 1, us: 1e3, µs: 1e3, μs: 1e3, ms: 1e6, s: 1e9, min: 60e9};
const COMPARE = {
  '>': (p, q) => p > q,
  '>=': (p, q) => p >= q,
  '<': (p, q) => p < q,
  '<=': (p, q) => p <= q,
  '=': (p, q) => p === q,
  '!=': (p, q) => p !== q,
};
const folded = (text) => text.toLowerCase().replaceAll('ß', 'ss').replaceAll('µ', 'μ'); // as Python's casefold
const quoted = (text) => (text.includes("'") && !text.includes('"') ? `"${text}"` : `'${text}'`); // as Python's repr

// {words: [text], patterns: [Pattern], conditions: [[field, operator, value]]}
function parseQuery(text) {
  const out = {words: [], patterns: [], conditions: []};
  if (!text.includes('/') && !text.includes('"')) text = text.replace(SPACED, '$1$2$3$4').replace(GAPS, '$1$2');
  for (const token of text.match(TOKEN) ?? []) {
    const [first, last] = [token[0], token[token.length - 1]],
      match = CONDITION.exec(token);
    if (token.length > 2 && first === '/' && last === '/') out.patterns.push(patternOf(token));
    else if (token.length > 2 && first === '"' && last === '"') out.words.push(folded(token.slice(1, -1)));
    else if (match && isField(match[1], match[3])) out.conditions.push(conditionOf(folded(match[1]), match[2], match[3]));
    else out.words.push(folded(token));
  }
  return out;
}
function patternOf(token) {
  try {
    return new Pattern(token.slice(1, -1));
  } catch (error) {
    throw new Error(`${token} is not a regular expression: ${error.message}`);
  }
}
function isField(field, value) {
  if (FIELDS.includes(folded(field))) return true;
  const [close] = closest(folded(field), FIELDS, 1, 0.7);
  if (close && (/^\d/.test(value) || EXACT.includes(close) || close === 'step'))
    throw new Error(`nothing can be filtered by ${quoted(field)}: did you mean ${quoted(close)}?`);
  return false;
}
function conditionOf(field, operator, value) {
  if (field === 'step' && (operator === '=' || operator === '!=')) return [field, operator, value.split(',').map(stepsOf)];
  if (TIMES.includes(field)) return [field, operator, durationOf(value)];
  if (NUMBERS.includes(field) || field === 'step') return [field, operator, numberOf(field, value)];
  if (operator !== '=' && operator !== '!=')
    throw new Error(`${field}${operator}${value} compares text: write ${field}=${value} or ${field}!=${value}`);
  return [field, operator, value.split(',').filter(Boolean)];
}
function stepsOf(text) {
  const match = /^(\d+)?(:)?(\d+)?$/.exec(text);
  if (!match || !text.replaceAll(':', '')) throw new Error(`step=${text} is not a range: write step=5, step=3:7, step=3: or step=2,4`);
  const [first, last] = [match[1], match[3]].map((part) => (part === undefined ? null : Number(part)));
  return match[2] ? [first, last] : [first, (first ?? 0) + 1];
}
function durationOf(text) {
  const match = DURATION.exec(text),
    unit = match ? match[2] || 'ns' : '';
  if (!match || !Object.hasOwn(UNIT_NS, unit))
    throw new Error(`${quoted(text)} is not a duration: write a number and one of ns, us, ms, s, min, as in 5us`);
  const ns = Number(match[1]) * UNIT_NS[unit],
    near = Math.round(ns);
  return Math.abs(ns % 1) === 0.5 && near % 2 ? near - 1 : near; // halves to even, as Python rounds
}
function numberOf(field, text) {
  const match = QUANTITY.exec(text);
  if (!match) throw new Error(`${quoted(text)} is not a number: write ${field}>10, share>5% or bytes>1MiB`);
  const number = Number(match[1]),
    unit = match[2] ?? '';
  if (unit === '%' || (field === 'share' && number > 1)) return number / 100;
  const power = ' KMGTP'.indexOf(unit[0] ?? ' ');
  if (unit.endsWith('iB')) return number * 1024 ** (unit === 'iB' ? 0 : power);
  return unit === '' || unit === 'B' ? number : number * 1000 ** power;
}
// difflib.get_close_matches
function closest(word, known, count, cutoff) {
  return known
    .map((text) => [(2 * shared(text, word)) / (text.length + word.length), text])
    .filter(([ratio]) => ratio >= cutoff)
    .sort((p, q) => q[0] - p[0] || (p[1] < q[1] ? 1 : -1))
    .slice(0, count)
    .map(([, text]) => text);
}
function shared(a, b) {
  let size = 0,
    at = 0,
    to = 0;
  for (let i = 0; i < a.length; i++)
    for (let j = 0; j < b.length; j++) {
      let k = 0;
      while (i + k < a.length && j + k < b.length && a[i + k] === b[j + k]) k++;
      if (k > size) [size, at, to] = [k, i, j];
    }
  return size ? size + shared(a.slice(0, at), b.slice(0, to)) + shared(a.slice(at + size), b.slice(to + size)) : 0;
}

const hasText = ({words, patterns}) => words.length + patterns.length > 0;
const finds = ({words, patterns}, text) =>
  words.every((word) => folded(text).includes(word)) && patterns.every((pattern) => pattern.test(text));

// Whether one value passes a condition: a number, a text, or a step; what is missing (null, NaN) passes none.
function holds([field, operator, value], found) {
  if (found === null || found === undefined || Number.isNaN(found)) return false;
  if (field === 'step' && Array.isArray(value))
    return value.some(([first, last]) => found >= (first ?? -Infinity) && found < (last ?? Infinity)) === (operator === '=');
  if (!Array.isArray(value)) return COMPARE[operator](found, value);
  const words = value.map(folded),
    text = folded(String(found)),
    fits = EXACT.includes(field) ? words.includes(text) : words.some((word) => text.includes(word));
  return fits === (operator === '=');
}

// As selection/frames.column_for, of the columns that a table in a report has.
const OTHER_COLUMNS = {
  avg: ['mean_ns', 'avg_ns'],
  time: ['time_ns', 'total_ns', 'device_ns', 'dur'],
  total: ['total_ns', 'dur', 'time_ns'],
  dtype: ['dtypes', 'in_dtypes', 'dtype'],
  type: ['type', 'category', 'kind'],
  category: ['category', 'type', 'kind'],
  thread: ['thread', 'track_name'],
  bandwidth: ['bytes_per_s'],
};
// Rows (objects that have `columns`) that pass; as selection/frames.passing.
function passing(rows, columns, query) {
  const of = query.conditions.map(([field]) => {
    const found = [field, `${field}_ns`, `${field}_bytes`, ...(OTHER_COLUMNS[field] ?? [])].find((name) => columns.includes(name));
    if (!found) throw new Error(`this table cannot be filtered by ${quoted(field)}: its columns are ${columns.join(', ')}`);
    return found;
  });
  const texts = ['name', 'shapes', 'module'].filter((name) => columns.includes(name));
  return rows.filter(
    (row) =>
      query.conditions.every((condition, k) => holds(condition, row[of[k]])) &&
      (!hasText(query) || finds(query, texts.map((name) => row[name] ?? '').join('\n'))),
  );
}

const WORDS = {
  phase: ['data', 'forward', 'backward', 'optimizer', 'communication', 'evaluation', 'other'],
  category: [
    ...['operator', 'kernel', 'launch', 'memcpy', 'memset', 'collective'],
    ...['python', 'annotation', 'module', 'io', 'sync', 'overhead'],
  ],
};
function checkWords([field, , words]) {
  const dimension = DIMENSION_OF[field],
    known = WORDS[dimension],
    word = known && Array.isArray(words) ? words.find((one) => !known.includes(folded(one))) : undefined;
  if (word === undefined) return;
  const close = closest(folded(word), known, 2, 0.6);
  throw new Error(
    `there is no ${dimension} ${quoted(word)}: ${close.length ? `did you mean ${close.map(quoted).join(' or ')}?` : `choose from ${known.join(', ')}`}`,
  );
}
// Conditions on step, phase and category become clauses, as views/filters.narrowed does.
const DIMENSION_OF = {step: 'step', phase: 'phase', category: 'category', type: 'category'};
function narrowed(given, query, state, own) {
  const known = {step: Array.from(given.steps.step), phase: given.meta.phases, category: given.meta.categories},
    out = {...state};
  let left = own;
  for (const condition of query.conditions) {
    const dimension = DIMENSION_OF[condition[0]];
    if (!dimension) continue;
    checkWords(condition);
    let fitting = known[dimension].filter((value) => holds(condition, value));
    if (!left.includes(dimension) && out[dimension] != null) fitting = fitting.filter((value) => out[dimension].includes(value));
    out[dimension] = fitting;
    left = left.filter((name) => name !== dimension);
  }
  return [{...query, conditions: query.conditions.filter(([field]) => !DIMENSION_OF[field])}, out, left];
}

// Whether slice i passes; as views/filters.slices_passing.
const OF_A_SLICE = ['name', 'category', 'type', 'phase', 'thread', 'module', 'shapes', 'self', 'total', 'dur', 'time', 'depth', 'step'];
function sliceFilter(columns, given, query) {
  const {meta} = given,
    trackOf = new Map(meta.tracks.map((track) => [track.track, track])),
    texts = {
      name: [columns.name, given.names],
      category: [columns.category, meta.categories],
      type: [columns.category, meta.categories],
      phase: [columns.phase, meta.phases],
      module: [columns.module, given.groups.module?.labels],
      shapes: [columns.shapes, given.groups.shapes?.details.map((text) => text || null)],
    };
  const numbers = {
    self: (i) => columns.dur[i] - columns.inside[i],
    depth: (i) => columns.row[i] - trackOf.get(given.trackOfRow[columns.row[i]]).row,
    step: (i) => (columns.step[i] < 0 ? null : columns.step[i]),
  };
  const tests = [],
    byCode = ([codes, values], test) => {
      const fits = (values ?? []).map(test);
      tests.push((i) => Boolean(codes && codes[i] >= 0 && fits[codes[i]]));
    };
  if (hasText(query)) byCode(texts.name, (text) => finds(query, text));
  for (const condition of query.conditions) {
    const [field] = condition;
    if (!OF_A_SLICE.includes(field)) throw new Error(`a slice has no ${field}: it can be found by ${OF_A_SLICE.join(', ')}`);
    checkWords(condition);
    if (texts[field]) byCode(texts[field], (text) => holds(condition, text));
    else if (field === 'thread') {
      const fits = new Set(meta.tracks.filter((track) => holds(condition, track.name)).map((track) => track.track));
      tests.push((i) => fits.has(given.trackOfRow[columns.row[i]]));
    } else {
      const number = numbers[field] ?? ((i) => columns.dur[i]);
      tests.push((i) => holds(condition, number(i)));
    }
  }
  return (i) => tests.every((test) => test(i));
}
