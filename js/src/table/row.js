// A row of the operator table.
import {mergedLabel} from '../shared/merged_names.js';
import {NO_NAME, SHARES} from './columns.js';

const TAIL = 16, // characters of a long name's end
  LONGEST_SHOWN = 500; // characters: more than any cell has room for

/** @param {string} codes */
function doubtMark(codes) {
  const mark = document.createElement('span');
  mark.className = 'nbp-doubt';
  mark.textContent = ' ⚠';
  mark.title = `times of this row are in doubt: ${codes} (p.trust says what to do)`;
  mark.style.cssText = 'cursor: help; color: var(--nbp-warning)';
  mark.setAttribute('role', 'img');
  mark.setAttribute('aria-label', `in doubt: ${codes}`);
  return mark;
}

/** Cells that remember what they show, so that only what has changed is written. */
export class TableRow {
  row = document.createElement('tr');
  /** @type {Map<string | number, string>} */ shown = new Map();

  /**
   * @param {Context} ctx
   * @param {import('./columns.js').TableColumn[]} columns
   */
  constructor(ctx, columns) {
    this.ctx = ctx;
    this.columns = columns;
    this.cells = columns.map((column) => {
      const cell = document.createElement('td');
      cell.className = column.key === 'label' ? 'nbp-name-cell' : SHARES.has(column.key) ? 'nbp-number nbp-share-cell' : 'nbp-number';
      this.row.append(cell);
      return cell;
    });
  }

  /**
   * @param {string | number} key
   * @param {string} text
   * @param {(text: string) => void} write
   */
  put(key, text, write) {
    if (this.shown.get(key) === text) return;
    this.shown.set(key, text);
    write(text);
  }

  /**
   * Show a row of an answer.
   * @param {TableAnswer} answer
   * @param {number} i
   * @param {Map<string, number>} most the largest share, by column
   */
  fill(answer, i, most) {
    const {data, label, detail, by} = answer;
    this.put('name', [by, label[i], detail[i], data.side[i], data.name[i], data.waits[i], Boolean(this.ctx.meta.doubts)].join('\n'), () => {
      this.row.dataset.name = label[i];
      this.cells[0].title = `${label[i].slice(0, 4 * LONGEST_SHOWN)}${detail[i] ? `\n${detail[i]}` : ''}`;
      this.row.classList.toggle('nbp-waits', data.waits[i] === 1);
      this.cells[0].replaceChildren(this.nameLine(answer, i));
    });
    this.columns.forEach((column, k) => {
      if (column.key === 'label') return;
      const value = column.value(answer, i),
        cell = this.cells[k];
      this.put(k, value === null ? '' : column.format(value), (text) => {
        cell.textContent = text;
      });
      const largest = most.get(column.key);
      if (largest !== undefined)
        this.put(column.key, `${((100 * (value ?? 0)) / largest).toFixed(1)}%`, (text) => cell.style.setProperty('--nbp-share', text));
    });
  }

  /**
   * Swatch, name, marks; of a long name the end stays, by which kernels differ.
   * @param {TableAnswer} answer
   * @param {number} i
   */
  nameLine(answer, i) {
    const line = document.createElement('div'),
      {data, label, detail, by} = answer,
      own = data.name[i] !== NO_NAME && this.ctx.nameOf(data.name[i]) === label[i], // not one for several names
      ofCode = data.name[i] === NO_NAME ? label[i] : this.ctx.labelOf(data.name[i]),
      whole = own ? ofCode : mergedLabel(label[i], ofCode),
      text = whole.length > LONGEST_SHOWN ? `${whole.slice(0, LONGEST_SHOWN)}…${whole.slice(-TAIL)}` : whole;
    /**
     * @param {'i' | 'span'} tag
     * @param {string} className
     * @param {string} content
     */
    const add = (tag, className, content) => {
      const part = document.createElement(tag);
      part.className = className;
      part.textContent = content;
      line.append(part);
      return part;
    };
    add('i', '', '').style.background = this.swatchColour(answer, i);
    const cut = text.length > 3 * TAIL ? text.length - TAIL : text.length;
    add('span', 'nbp-name', text.slice(0, cut) || '(none)');
    if (cut < text.length) add('span', 'nbp-name-end', text.slice(cut));
    const doubt = this.ctx.meta.doubts?.[data.side[i] ? 'device' : 'host']?.[label[i]];
    if (doubt && ['name', 'shapes'].includes(by)) line.append(doubtMark(doubt));
    if (data.side[i]) add('span', 'nbp-side', 'GPU');
    if (data.waits[i]) add('span', 'nbp-side', 'waits').title = 'a call that only waits; see p.operators(waits=True)';
    if (detail[i]) add('span', 'nbp-shapes', detail[i]);
    return line;
  }

  /**
   * @param {TableAnswer} answer
   * @param {number} i
   */
  swatchColour({data, by, label}, i) {
    const {palettes, meta, colourOfName} = this.ctx,
      code = data.name[i];
    if (code !== NO_NAME) return palettes.css(palettes.colour('name', colourOfName(code)));
    if (by === 'category') return meta.colours.categories[meta.categories.indexOf(label[i])] ?? 'transparent';
    return 'transparent';
  }
}
