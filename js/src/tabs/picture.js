// A Bokeh figure in a tab. Sources of its glyphs may have a column `select`: a patch of the selection as JSON. What a hover
// tool of Bokeh would show is shown in the tooltip of all views instead: as text.
function picturePart(ctx, {title, legend, document: json}, pick) {
  const box = textElement('figure', 'nbp-picture', ''),
    place = textElement('div', 'nbp-figure', '');
  if (title || legend.length) {
    const caption = textElement('figcaption', 'nbp-part-title', title),
      keys = textElement('span', 'nbp-keys', '');
    for (const [text, colour] of legend) {
      const key = textElement('span', '', text),
        swatch = document.createElement('i');
      if (/^#[0-9a-f]{6}$/i.test(colour)) swatch.style.background = colour;
      key.prepend(swatch);
      keys.append(key);
    }
    caption.append(keys);
    box.append(caption);
  }
  place.setAttribute('role', 'img');
  place.setAttribute('aria-label', title || 'picture');
  box.append(place);
  const hovers = new Map(); // renderer → [[label, column], …]
  let host = null,
    gone = false;
  const figures = () => [...(host?.doc._all_models.values() ?? [])].filter((model) => model.type === 'Figure' || model.type === 'Plot');
  const theme = () => {
    if (host) paintFigures(host.doc, ctx.theme);
  };
  async function mount() {
    const made = await mountDocument(ctx.host.Bokeh, JSON.parse(json), [place], prepare);
    if (gone) {
      made.dispose();
      return;
    }
    host = made;
    theme();
  }
  function prepare(doc) {
    for (const tool of doc._all_models.values()) {
      if (tool.type !== 'HoverTool' || !Array.isArray(tool.tooltips)) continue;
      const rows = tool.tooltips.map(([label, text]) => [label, /^@\{?([^{}]+)\}?$/.exec(text)?.[1]]);
      for (const renderer of Array.isArray(tool.renderers) ? tool.renderers : []) hovers.set(renderer, rows);
      tool.setv({tooltips: null});
    }
  }
  function linesOf(renderer, index) {
    const {data} = renderer.data_source;
    return (hovers.get(renderer) ?? []).map(([label, column]) => {
      const text = String(data[column]?.[index] ?? '');
      return text && label ? `${text} ${label}` : text;
    });
  }
  // the topmost mark under the pointer that has something to say
  function markAt(event) {
    for (const figure of figures()) {
      const view = host.viewOf(figure),
        canvas = view?.canvas_view?.el ?? place,
        rect = canvas.getBoundingClientRect(),
        point = {type: 'point', sx: event.clientX - rect.left, sy: event.clientY - rect.top};
      for (const renderer of [...figure.renderers].reverse()) {
        const data = renderer.data_source?.data,
          of = view.renderer_view?.(renderer) ?? view.views?.find_one(renderer);
        if (!data || !of || !(data.select || hovers.has(renderer))) continue;
        const index = of.hit_test(point)?.indices?.[0];
        if (index !== undefined) return {lines: linesOf(renderer, index), patch: data.select?.[index] ? JSON.parse(data.select[index]) : null};
      }
    }
    return null;
  }
  place.addEventListener('pointermove', (event) => {
    const mark = host && markAt(event);
    place.classList.toggle('nbp-pickable', Boolean(mark?.patch));
    if (mark?.lines.some(Boolean)) ctx.tooltip.show(event, mark.lines);
    else ctx.tooltip.hide();
  });
  place.addEventListener('pointerleave', () => ctx.tooltip.hide());
  let pressed = null;
  place.addEventListener(
    'pointerdown',
    (event) => {
      pressed = [event.clientX, event.clientY];
    },
    true,
  );
  place.addEventListener('click', (event) => {
    if (!pressed || Math.hypot(event.clientX - pressed[0], event.clientY - pressed[1]) > 4) return; // the end of a drag
    const mark = host && markAt(event);
    if (mark?.patch) pick(mark.patch);
  });
  return {
    element: box,
    mount,
    theme,
    dispose() {
      gone = true;
      ctx.tooltip.hide();
      host?.dispose();
      host = null;
    },
    snapshot: () => ({drawn: Boolean(host), renderers: figures().flatMap((f) => f.renderers.map((r) => r.data_source?.get_length?.() ?? 0))}),
    locate(index) {
      for (const figure of figures())
        for (const renderer of figure.renderers) {
          const data = renderer.data_source?.data;
          if (!data?.select?.[index]) continue;
          const of = host.viewOf(figure).renderer_view?.(renderer) ?? host.viewOf(figure).views.find_one(renderer),
            [sx, sy] = of.glyph.scenterxy(index),
            rect = (host.viewOf(figure).canvas_view?.el ?? place).getBoundingClientRect();
          return {x: rect.left + sx, y: rect.top + sy};
        }
      return null;
    },
  };
}


