// Counter tracks under the slices: a step line each, two lanes high, with its name, unit and range beside it.
const COUNTER_LANES = 2;

function formatQuantity(value, unit) {
  if (unit === 'bytes') return formatBytes(value);
  if (unit === '1' || unit === 'share') return formatShare(value);
  return `${significant(value, 3)}${unit ? ` ${unit}` : ''}`;
}

const scaleOf = ({low, high, unit}) => {
  const bottom = Math.min(0, low),
    top = unit === '1' || unit === 'share' ? Math.max(1, high) : high;
  return [bottom, top > bottom ? top : bottom + 1];
};

function createCounters(ctx, view, lanes) {
  const {host, range, meta} = ctx,
    source = host.model('counters');
  let last = null,
    have = null,
    timer = 0,
    shown = '';
  const visible = () => [...new Set(lanes.visible().filter((lane) => lane.kind === 'counter'))].map((lane) => lane.counter.track);
  const channel = ctx.asker.channel(
    () => {
      const tracks = visible(),
        width = range.end - range.start;
      shown = tracks.join();
      if (!tracks.length) return null;
      return {
        t: 'counters',
        a: range.start - width / 2,
        b: range.end + width / 2,
        px: Math.round(view.frame.bbox.width * 2),
        tracks,
      };
    },
    (answer, asked) => {
      have = asked;
      last = new Map();
      let from = 0;
      answer.tracks.forEach((track, k) => {
        const stop = from + answer.sizes[k];
        last.set(track, {x: answer.data.x.subarray(from, stop), y: answer.data.y.subarray(from, stop)});
        from = stop;
      });
      draw();
      ctx.count('counters');
    },
    (error) => ctx.trouble(error),
  );
  function draw() {
    const xs = [],
      ys = [];
    for (const counter of meta.counters) {
      const place = lanes.placeOfCounter(counter.track),
        curve = last?.get(counter.track);
      if (place < 0 || !curve?.x.length) continue;
      const {x, y} = stairs(curve.x, curve.y),
        [bottom, top] = scaleOf(counter);
      xs.push(x);
      ys.push(y.map((v) => place + COUNTER_LANES - 0.12 - ((COUNTER_LANES - 0.26) * (v - bottom)) / (top - bottom)));
    }
    source.data = {xs, ys};
  }
  return {
    moved: () => {
      if (meta.counters.length) timer = followCurve(channel, range, have, timer);
    },
    scrolled: () => {
      if (visible().join() !== shown) channel.run();
      draw();
    },
    refresh: () => channel.run(),
    valueAt(track, time) {
      const curve = last?.get(track);
      return curve ? valueOf(curve, time) : null;
    },
    close: () => {
      clearTimeout(timer);
      channel.close();
    },
    snapshot: () => ({drawn: source.data.xs.length, points: source.data.xs.map((x) => x.length)}),
  };
}

// A value holds until the next one.
function stairs(x, y) {
  const n = x.length,
    xs = new Float64Array(Math.max(0, 2 * n - 1)),
    ys = new Float64Array(xs.length);
  for (let i = 0; i < n; i++) {
    xs[2 * i] = x[i];
    ys[2 * i] = y[i];
    if (i + 1 < n) {
      xs[2 * i + 1] = x[i + 1];
      ys[2 * i + 1] = y[i];
    }
  }
  return {x: xs, y: ys};
}
function valueOf({x, y}, time) {
  let lo = 0,
    hi = x.length;
  while (lo < hi) {
    const m = (lo + hi) >> 1;
    if (x[m] <= time) lo = m + 1;
    else hi = m;
  }
  return lo ? y[lo - 1] : null;
}

// A curve is asked for with half a view on each side: again at once where that ends, and when the hand rests after a zoom or
// near the end.
const REST_MS = 150;
function followCurve(channel, range, have, timer) {
  clearTimeout(timer);
  const width = range.end - range.start,
    beside = have ? Math.min(range.start - have.a, have.b - range.end) / width : -1;
  if (beside < 0) channel.run();
  else if (beside < 0.2 || Math.abs((have.b - have.a) / (2 * width) - 1) > 1e-6) return setTimeout(() => channel.run(), REST_MS);
  return 0;
}
