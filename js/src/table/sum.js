// The last line of the operator table: what its shares are of.
import {formatShare, formatTime, formatTimeCell} from '../shared/units.js';

/** Sums of all rows, also of those that are not shown. */
export class SumRow {
  foot = document.createElement('tfoot');
  drawn = '';

  /**
   * @param {TableAnswer} answer
   * @param {import('./columns.js').TableColumn[]} columns
   */
  draw(answer, columns) {
    const host = hostOf(answer),
      device = answer.device_self_ns,
      /** @type {Record<string, string>} */
      texts = {
        label: `sum of all rows${answer.host_range.length ? ` · calls of ${rangeText(answer.host_range)}` : ''}`,
        ...(host && {self: formatTimeCell(host), share: formatShare(1)}),
        ...(device && {device: formatTimeCell(device), device_share: formatShare(1)}),
      },
      key = [...Object.values(texts), ...answer.device_range].join('\n');
    if (key === this.drawn) return;
    this.drawn = key;
    const row = document.createElement('tr');
    for (const column of columns) {
      const cell = document.createElement(column.key === 'label' ? 'th' : 'td');
      if (column.key === 'label') cell.scope = 'row';
      else cell.className = 'nbp-number';
      cell.textContent = texts[column.key] ?? '';
      if (column.key === 'label') cell.title = 'the shortest and the longest call of what is selected, on the host';
      else if (column.key === 'device' && answer.device_range.length) cell.title = `${rangeText(answer.device_range)} each`;
      row.append(cell);
    }
    this.foot.replaceChildren(row);
  }
}

/** @param {number[]} range */
const rangeText = (range) => [...new Set(range.map((ns) => formatTime(ns, 2)))].join(' to ');

/**
 * The self time of the host that shares are of: a chosen name takes nothing from it.
 * @param {TableAnswer} answer
 */
function hostOf({data}) {
  const i = data.share.findIndex((share, k) => share > 0 && !data.side[k]);
  return i < 0 ? 0 : Math.round(data.self_ns[i] / data.share[i]);
}
