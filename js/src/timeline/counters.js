// Counter tracks under the slices: a step line each, two lanes high, with its name, unit and range beside it.
import {followCurve, stairs, valueOf} from './curves.js';
import {COUNTER_LANES} from './lanes.js';

/**
 * Lowest and highest value of a counter's axis.
 * @param {Pick<Counter, 'low' | 'high' | 'unit'>} counter
 */
export const scaleOf = ({low, high, unit}) => {
  const bottom = Math.min(0, low),
    top = unit === '1' || unit === 'share' ? Math.max(1, high) : high;
  return [bottom, top > bottom ? top : bottom + 1];
};

/**
 * Draw the counters of the timeline.
 * @param {Context} ctx
 * @param {BokehObject} view
 * @param {import('./timeline.js').Timeline} timeline
 */
export function createCounters(ctx, view, timeline) {
  const {lanes} = timeline,
    {host, range, meta} = ctx,
    source = host.model('counters');
  /** @type {Map<number, import('./curves.js').Curve> | null} */
  let last = null;
  /** @type {CurveRequest | null} */
  let have = null;
  let timer = 0,
    shown = '';
  const visible = () => [...new Set(timeline.lanesInSight().flatMap(({lane}) => (lane.kind === 'counter' ? [lane.counter.track] : [])))];
  /** @returns {QuestionOf<'counters'> | null} */
  function request() {
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
  }
  const channel = ctx.asker.channel(
    request,
    (answer, asked) => {
      have = asked;
      last = new Map();
      let from = 0;
      for (const [k, track] of answer.tracks.entries()) {
        const stop = from + answer.sizes[k];
        last.set(track, {x: answer.data.x.subarray(from, stop), y: answer.data.y.subarray(from, stop)});
        from = stop;
      }
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
        [bottom, top] = scaleOf(counter),
        base = timeline.yOf(place) + COUNTER_LANES - 0.12,
        highest = place < lanes.stuck() ? -Infinity : timeline.edge(); // what scrolls ends at the pinned tracks
      if (base < highest) continue;
      const at = y.map((v) => base - ((COUNTER_LANES - 0.26) * (v - bottom)) / (top - bottom));
      xs.push(x);
      ys.push(at.map((v) => (v < highest ? NaN : v)));
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
    /**
     * @param {number} track
     * @param {number} time
     */
    valueAt(track, time) {
      const curve = last?.get(track);
      return curve ? valueOf(curve, time) : null;
    },
    close: () => {
      clearTimeout(timer);
      channel.close();
    },
    snapshot: () => ({drawn: source.data.xs.length, points: source.data.xs.map((/** @type {number[]} */ x) => x.length)}),
  };
}
