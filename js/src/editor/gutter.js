// Heat in the editor of a cell: bars in a gutter, a tint behind the text. It is there as long as the text is what was recorded.
const PROTOCOL = 1;
const GUTTER_PX = 44;

/**
 * Whether a display is in the notebook of an editor. Copies of a notebook have the same ids, so it must be this one: told by its
 * manager's document, or by the place in the page where a manager tells none.
 * @param {{manager: any, el?: HTMLElement}} entry
 * @param {any} model of the cell
 * @param {HTMLElement} dom
 */
export function isOfNotebook({manager, el}, model, dom) {
  const cells = manager?.context?.model?.cells;
  if (cells) return [...cells].includes(model);
  const panel = el?.closest('.jp-Notebook');
  return Boolean(panel) && panel === dom.closest('.jp-Notebook');
}

/**
 * Whether an entry is about the cell of an editor.
 * @param {EditorHeat} entry
 * @param {any} model of the cell
 * @param {HTMLElement} dom
 */
function isAbout(entry, model, dom) {
  if (!isOfNotebook(entry, model, dom)) return false;
  if (entry.cell) return entry.cell === model.id;
  const cells = [...(entry.manager?.context?.model?.cells ?? [])],
    same = cells.filter((cell) => cell.sharedModel.getSource() === entry.source);
  return same.length === 1 && same[0] === model; // the kernel was not told the cell's id
}

/**
 * The bars of a line.
 * @param {EditorLine} row
 * @param {boolean} chosen
 */
function barsOf(row, chosen) {
  const box = document.createElement('div');
  box.className = `nbp-heat${chosen ? ' nbp-heat-chosen' : ''}`;
  box.title = row.label; // text, never markup
  for (const kind of /** @type {const} */ (['host', 'device'])) {
    if (!(row[kind] > 0)) continue;
    const bar = document.createElement('i');
    bar.className = `nbp-heat-${kind}`;
    bar.style.width = `${Math.max(2, Math.min(100, 100 * row[kind]))}%`;
    box.append(bar);
  }
  if (row.before !== undefined) {
    const tick = document.createElement('b');
    tick.style.left = `calc(2px + ${row.before} * (100% - 6px))`;
    box.append(tick);
  }
  return box;
}

const LOOK = {
  '.nbp-heat-gutter': {width: `${GUTTER_PX}px`, cursor: 'pointer'},
  '.nbp-heat': {position: 'relative', height: '100%', display: 'flex', flexDirection: 'column', justifyContent: 'center', gap: '1px', padding: '0 2px', boxSizing: 'border-box'},
  '.nbp-heat i': {display: 'block', height: '5px', borderRadius: '1px', minWidth: '2px'},
  '.nbp-heat b': {position: 'absolute', top: '15%', width: '2px', height: '70%', background: 'var(--jp-ui-font-color1, #000)'},
  '.nbp-heat-host': {background: '#d55e00'},
  '.nbp-heat-device': {background: 'var(--jp-info-color1, #0097a7)'},
  '.nbp-heat-chosen': {
    boxShadow: 'inset 2px 0 var(--jp-brand-color1, #1976d2)',
    background: 'color-mix(in srgb, var(--jp-brand-color1, #1976d2) 22%, transparent)',
  },
  '.nbp-heat:hover': {background: 'var(--jp-layout-color3, #bdbdbd66)'},
  '.nbp-heat-tint': {background: 'color-mix(in srgb, #d55e00 var(--nbp-heat), transparent)'},
  '.nbp-heat-words': {position: 'absolute', width: '1px', height: '1px', overflow: 'hidden', clipPath: 'inset(50%)'},
};

/**
 * Make the extension of an editor out of CodeMirror's modules.
 * @param {any} viewModule `@codemirror/view`
 * @param {any} stateModule `@codemirror/state`
 * @returns {(model: any) => unknown} of the model of a cell
 */
export function createGutter(viewModule, stateModule) {
  const {EditorView, ViewPlugin} = viewModule,
    {Compartment} = stateModule,
    /** @type {Map<symbol, EditorHeat>} */ entries = new Map(),
    /** @type {Set<HeatedEditor>} */ editors = new Set(),
    marks = createMarks(viewModule, stateModule),
    // no gutter without heat: an empty one would draw a strip into every cell
    shown = {part: new Compartment(), gutter: viewModule.gutter, attributes: EditorView.contentAttributes};

  document.addEventListener('notebook-prof:lines', (event) => {
    /** @type {EditorHeat} */
    const detail = /** @type {CustomEvent} */ (event).detail;
    if (detail?.protocol !== PROTOCOL) return;
    entries.delete(detail.widget); // the newest is the last
    if (detail.lines) entries.set(detail.widget, detail);
    for (const editor of editors) editor.later();
  });
  document.dispatchEvent(new CustomEvent('notebook-prof:gutter'));
  return (model) => [
    marks.field,
    EditorView.baseTheme(LOOK),
    shown.part.of([]),
    ViewPlugin.define((/** @type {any} */ view) => new HeatedEditor(view, model, {entries, editors, marks, shown})),
  ];
}

/**
 * The marks of an editor, and the field that keeps them.
 * @param {any} viewModule
 * @param {any} stateModule
 */
function createMarks({Decoration, EditorView, GutterMarker}, {RangeSet, RangeSetBuilder, StateEffect, StateField}) {
  const set = StateEffect.define();

  class Mark extends GutterMarker {
    /**
     * @param {EditorLine} row
     * @param {boolean} chosen
     */
    constructor(row, chosen) {
      super();
      this.row = row;
      this.chosen = chosen;
    }
    /** @param {Mark} other */
    eq(other) {
      return other.row === this.row && other.chosen === this.chosen;
    }
    toDOM() {
      return barsOf(this.row, this.chosen);
    }
  }
  const none = {bars: RangeSet.empty, tints: Decoration.none},
    field = StateField.define({
      create: () => none,
      update(/** @type {typeof none} */ value, /** @type {any} */ transaction) {
        let now = transaction.docChanged ? none : value; // an edited line is no longer what was measured
        for (const effect of transaction.effects) if (effect.is(set)) now = effect.value;
        return now;
      },
      provide: (/** @type {any} */ self) => EditorView.decorations.from(self, (/** @type {typeof none} */ value) => value.tints),
    });

  /**
   * The effect that shows some lines.
   * @param {any} doc
   * @param {EditorHeat | null} entry
   */
  function effectOf(doc, entry) {
    const bars = new RangeSetBuilder(),
      tints = new RangeSetBuilder(),
      chosen = new Set(entry?.chosen);
    for (const row of [...(entry?.lines ?? [])].sort((a, b) => a.line - b.line)) {
      if (!(row.line >= 1 && row.line <= doc.lines)) continue;
      const {from} = doc.line(row.line);
      bars.add(from, from, new Mark(row, chosen.has(row.line)));
      const style = `--nbp-heat: ${Math.round(24 * Math.sqrt(row.host))}%`;
      tints.add(from, from, Decoration.line({attributes: {class: 'nbp-heat-tint', style}}));
    }
    return set.of({bars: bars.finish(), tints: tints.finish()});
  }
  return {field, effectOf};
}

let serial = 0;

/** An editor of a cell. */
class HeatedEditor {
  /** @type {EditorHeat | null} */ entry = null;
  due = 0;
  // CodeMirror hides gutters from screen readers: they get the same in words, as the description of the text box
  words = document.createElement('div');

  /**
   * @param {any} view
   * @param {any} model
   * @param {{entries: Map<symbol, EditorHeat>, editors: Set<HeatedEditor>, marks: ReturnType<typeof createMarks>, shown: any}} made
   */
  constructor(view, model, made) {
    this.view = view;
    this.model = model;
    this.made = made;
    this.words.className = 'nbp-heat-words';
    this.words.id = `nbp-heat-${++serial}`;
    made.editors.add(this);
    this.later();
  }

  /** @param {{docChanged: boolean}} change */
  update({docChanged}) {
    if (docChanged) this.later();
  }

  destroy() {
    cancelAnimationFrame(this.due);
    this.words.remove();
    this.made.editors.delete(this);
  }

  /** CodeMirror takes no change while it makes or updates a plugin. */
  later() {
    cancelAnimationFrame(this.due);
    this.due = requestAnimationFrame(() => this.draw());
  }

  /** What is told of this cell, if its text is still what was recorded. */
  current() {
    const {doc} = this.view.state;
    for (const entry of [...this.made.entries.values()].reverse())
      if (isAbout(entry, this.model, this.view.dom)) return entry.source.length === doc.length && entry.source === doc.toString() ? entry : null;
    return null;
  }

  draw() {
    const entry = this.current(),
      {marks, shown} = this.made;
    if (!entry && !this.entry) return;
    const effects = [marks.effectOf(this.view.state.doc, entry)];
    if (!entry !== !this.entry) {
      effects.push(shown.part.reconfigure(entry ? this.gutter() : []));
      if (entry) this.view.dom.append(this.words);
      else this.words.remove();
    }
    this.entry = entry;
    this.words.textContent = entry?.words ?? '';
    this.view.dispatch({effects});
  }

  gutter() {
    const {marks, shown} = this.made;
    /**
     * @param {any} view
     * @param {{from: number}} block
     * @param {MouseEvent} event
     */
    const click = (view, block, event) => {
      const line = view.state.doc.lineAt(block.from).number;
      if (!this.entry?.lines?.some((row) => row.line === line)) return false;
      this.entry.select(line, event.shiftKey || event.ctrlKey || event.metaKey);
      event.preventDefault(); // the cursor stays where it is
      return true;
    };
    return [
      shown.gutter({
        class: 'nbp-heat-gutter',
        markers: (/** @type {any} */ view) => view.state.field(marks.field).bars,
        domEventHandlers: {mousedown: click},
      }),
      shown.attributes.of({'aria-describedby': this.words.id}),
    ];
  }
}
