// The line about the slice in focus.
function createDetail(ctx, box, timeline) {
  const {store} = ctx;
  let shown = null;
  function draw() {
    if (!shown) {
      const tip = document.createElement('span');
      tip.className = 'nbp-note';
      tip.textContent =
        'Click a slice to inspect it, double-click to select all of its name. Drag to pan, Shift+drag to select a time. Press ? for all keys.';
      box.replaceChildren(tip);
      return;
    }
    const name = document.createElement('strong');
    name.textContent = shown.name;
    name.title = shown.name;
    const facts = [
      ['', shown.track_name],
      ['at', formatInstant(shown.ts, Math.max(shown.dur, 1) / 100)],
      ['took', formatTime(shown.dur, 4)],
      ['self', formatTime(shown.self_ns, 4)],
      ['step', shown.step],
      ['phase', shown.phase],
      ['module', shown.module],
      ['shapes', shown.shapes],
      ['in', shown.parent?.name],
      ...(shown.arguments ?? []).slice(0, 6),
    ];
    const parts = facts
      .filter(([, value]) => value !== null && value !== undefined && value !== '')
      .map(([label, value]) => {
        const fact = document.createElement('span'),
          key = document.createElement('em');
        fact.className = 'nbp-fact';
        key.textContent = label;
        fact.append(key, ` ${value}`);
        fact.title = String(value);
        return fact;
      });
    if (shown.arguments?.length > 6) {
      const more = document.createElement('span');
      more.className = 'nbp-fact';
      more.textContent = `… ${shown.arguments.length - 6} more`;
      more.title = shown.arguments.map(([name, value]) => `${name} ${value}`).join('\n');
      parts.push(more);
    }
    for (const link of (shown.links ?? []).slice(0, 4)) {
      const go = document.createElement('button');
      go.className = 'nbp-link';
      go.textContent = `${link.direction === 'to' ? '→' : '←'} ${link.name}`;
      go.title = `${link.kind}: go to it (G)\n${formatTime(link.dur)} at ${formatInstant(link.ts, Math.max(link.dur, 1) / 10)}`;
      go.addEventListener('click', () => ctx.goTo(link));
      parts.push(go);
    }
    if (shown.stack?.length) {
      const stack = document.createElement('span');
      stack.className = 'nbp-fact';
      stack.textContent = shown.stack[shown.stack.length - 1];
      stack.title = shown.stack.join('\n');
      parts.push(stack);
    }
    for (const [what, sentence] of [
      ['arguments', shown.left],
      ['stack', ctx.settings.absent],
    ]) {
      if (!sentence) continue;
      const absent = document.createElement('span');
      absent.className = 'nbp-absent-part';
      absent.textContent = what;
      absent.title = sentence;
      parts.push(absent);
    }
    const only = document.createElement('button');
    only.className = 'nbp-link';
    only.textContent = 'select this name';
    only.addEventListener('click', () => store.set({name: [shown.name]}, 'timeline'));
    box.replaceChildren(name, ...parts, only);
  }
  async function update() {
    const id = store.get().focus;
    if (id == null) {
      shown = null;
      timeline.setDetail(null);
      draw();
      return;
    }
    try {
      const answer = await ctx.asker.ask({t: 'detail', id});
      if (store.get().focus !== id) return;
      shown = answer.found ? answer : null;
    } catch (error) {
      ctx.trouble(error);
      shown = null;
    }
    timeline.setDetail(shown);
    draw();
    ctx.count('detail');
  }
  draw();
  return {update, current: () => shown};
}
