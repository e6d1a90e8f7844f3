// Tells the editor extension, if there is one, what the cells of a watched notebook took.
const PROTOCOL = 1;

/** The events of a display of a watched notebook, or of its kernel, which has no view to select in. */
export class CellEvents {
  widget = Symbol('widget');
  /** @type {Map<string, EditorCell>} */ cells = new Map();

  /** @param {{manager: unknown, cells: EditorCell[], el?: HTMLElement, store?: Store}} given */
  constructor({manager, cells, el, store}) {
    this.manager = manager;
    this.el = el;
    this.store = store;
    this.again = () => this.tell([]);
    document.addEventListener('notebook-prof:gutter', this.again);
    this.stop = store?.subscribe((patch) => 'name' in patch && this.again());
    this.tell(cells);
  }

  /** @param {EditorCell[]} cells those that are new */
  tell(cells) {
    for (const cell of cells) this.cells.set(cell.id, cell);
    this.send(this.cells);
  }

  /** @param {Map<string, EditorCell> | null} cells */
  send(cells) {
    const {manager, el, widget, store} = this,
      name = store?.get().name ?? [];
    /** @type {EditorCells} */
    const detail = {
      protocol: PROTOCOL,
      widget,
      manager,
      el,
      cells,
      chosen: (id) => name.includes(this.cells.get(id)?.name ?? ''),
      select: store ? (id) => this.select(id) : null,
    };
    document.dispatchEvent(new CustomEvent('notebook-prof:cells', {detail}));
  }

  /**
   * A click on a badge selects the cell; the same again takes it away.
   * @param {string} id
   */
  select(id) {
    const name = this.cells.get(id)?.name;
    if (!name) return;
    const now = this.store?.get().name ?? [];
    this.store?.set({name: now.length === 1 && now[0] === name ? null : [name]}, 'editor');
  }

  close() {
    document.removeEventListener('notebook-prof:gutter', this.again);
    this.stop?.();
    this.send(null);
  }
}

/**
 * Tell of the cells of a notebook's session, as long as a display lasts.
 * @type {import('../widget/widget.js').Beside}
 */
export function publishCells({cells}, model, el, line) {
  if (!cells) return () => {};
  const events = new CellEvents({manager: model.widget_manager, cells, el, store: line.store});
  return () => events.close();
}
