// What the figures need from the page: tick texts, pointer gestures, and the selected window drawn in all of them.
function writeTicks(ctx, phases) {
  const {host} = ctx;
  const times = (ticks) => {
    const step = ticks.length > 1 ? Math.abs(ticks[1] - ticks[0]) : 1,
      largest = Math.max(...ticks.map(Math.abs), 1);
    return ticks.map((t) => (t === 0 ? '0' : formatInstant(t, step, largest)));
  };
  for (const name of ['overview_time', 'timeline_time', 'memory_time', 'phases_duration']) formatTicks(host.model(name), times);
  formatTicks(host.model('memory_bytes'), (ticks) => ticks.map((t) => (t === 0 ? '0' : formatBytes(t))));
  formatTicks(host.model('phases_step'), (ticks) => ticks.map((t) => (Number.isInteger(t) ? phases.labelOf(t) : '')));
}

function watchPointer(ctx, timeline, memory, parts, setPointer, undo) {
  const {store} = ctx,
    tip = ctx.tooltip;
  undo.push(
    attachTimeGestures(ctx, parts.timeline, timeline.view, {
      hover(event, time) {
        setPointer(time);
        const found = timeline.hit(time, timeline.laneAt(event));
        if (found.kind === 'slice')
          tip.show(event, [
            found.name,
            `${formatTime(found.dur)} at ${formatInstant(found.ts, Math.max(found.dur, 1) / 10)}`,
            found.track.name,
          ]);
        else if (found.kind === 'bin')
          tip.show(event, [
            `${formatCount(found.count)} slices in ${formatTime(found.dur)}, busy ${formatShare(Math.min(1, found.busy))}`,
            `longest: ${found.name}`,
            found.sums ? 'this file holds them as a sum only' : 'zoom in to see each',
          ]);
        else if (found.kind === 'step') tip.show(event, [`step ${found.step}`, formatTime(found.dur), 'click: select the step']);
        else if (found.kind === 'counter')
          tip.show(event, [
            found.counter.name,
            formatQuantity(found.value, found.counter.unit),
            `at ${formatInstant(time, (ctx.range.end - ctx.range.start) / 500)}`,
          ]);
        else tip.hide();
      },
      click(event, time) {
        const found = timeline.hit(time, timeline.laneAt(event));
        if (found.kind === 'slice') store.set({focus: found.id}, 'timeline');
        else if (found.kind === 'step') {
          const now = store.get().step ?? [];
          store.set(
            {
              step:
                now.length === 1 && now[0] === found.step
                  ? null
                  : event.ctrlKey
                    ? [...new Set([...now, found.step])]
                    : [found.step],
            },
            'timeline',
          );
        } else store.set({focus: null}, 'timeline');
      },
      doubleClick(event, time) {
        const found = timeline.hit(time, timeline.laneAt(event));
        if (found.kind === 'slice') {
          const now = store.get().name ?? [];
          store.set({name: now.length === 1 && now[0] === found.name ? null : [found.name]}, 'timeline');
        } else if (found.kind === 'bin') ctx.zoom(0.1, time);
        else if (found.kind === 'step') ctx.setView(found.ts - 0.02 * found.dur, found.ts + 1.02 * found.dur);
      },
      verticalDrag: (px) => timeline.scrollBy(px),
    }),
  );
  if (parts.memory.hidden) return;
  undo.push(
    attachTimeGestures(ctx, parts.memory, memory.view, {
      hover(event, time) {
        setPointer(time);
        const value = memory.valueAt(time);
        if (value === null) tip.hide();
        else tip.show(event, [formatBytes(value), `at ${formatInstant(time, (ctx.range.end - ctx.range.start) / 500)}`]);
      },
    }),
  );
}

// The selected window: framed, and everything outside it veiled, in all figures with a time axis.
function showWindow(ctx) {
  const chosen = ctx.store.get().window;
  for (const name of ['timeline', 'overview', 'memory']) {
    ctx.host.model(`${name}_window`).setv({visible: Boolean(chosen), left: chosen?.[0] ?? 0, right: chosen?.[1] ?? 1});
    ctx.host.model(`${name}_veil_left`).setv({visible: Boolean(chosen), right: chosen?.[0] ?? 0});
    ctx.host.model(`${name}_veil_right`).setv({visible: Boolean(chosen), left: chosen?.[1] ?? 1});
  }
}
