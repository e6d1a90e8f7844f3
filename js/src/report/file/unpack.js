// A trace that lies in the file, compressed: its columns unpacked, and a transport that answers in the page.
import {createLocal, fileAnswers} from '../answers.js';
import {mergedName, mergedNames} from '../../shared/merged_names.js';
import {inflateAll} from './inflate.js';

/**
 * The JSON of a block of the file.
 * @param {string} id
 */
export const jsonOf = (id) => JSON.parse(document.getElementById(id)?.textContent ?? 'null');

/**
 * Make columns of what views/report/report_columns.py has packed.
 * @param {any} given changed in place: afterwards it is a `ReportData`
 * @param {ReportPanels} panels
 * @returns {Promise<{given: ReportData, columns: ReportColumns}>}
 */
export async function unpackGiven(given, panels) {
  const columns = await inflateAll(given.columns);
  given.colours = Uint8Array.from(given.colours);
  for (const name of Object.keys(given.steps))
    given.steps[name] = (name === 'step' ? Int32Array : Float64Array).from(given.steps[name]);
  const {account, phases, groups} = given;
  for (const name of Object.keys(account.data))
    account.data[name] = (name === 'ts' || name === 'dur' ? Float64Array : Uint32Array).from(account.data[name]);
  for (const name of Object.keys(phases.data)) phases.data[name] = Float64Array.from(phases.data[name]);
  given.path.data = await inflateAll(given.path.columns);
  if (given.stacks) given.stacks.columns = await inflateAll(given.stacks.columns);
  if (given.told) given.told.columns = await inflateAll(given.told.columns);
  for (const one of given.memory) one.columns = await inflateAll(one.columns);
  for (const track of Object.keys(given.counters)) given.counters[track] = await inflateAll(given.counters[track]);
  if (groups.shapes) groups.shapes.labels = groups.shapes.names.map((/** @type {number} */ code) => mergedName(given.names[code]));
  if (given.left) for (const part of ['columns', 'kinds', 'totals']) given.left[part] = await inflateAll(given.left[part]);
  given.panels = panels;
  given.countedAs = mergedNames(given.names);
  groups.name = {labels: given.names.map(mergedName)};
  groups.category = {labels: given.meta.categories};
  return {given, columns};
}

/**
 * Open a trace of the file. `prefix` is that of the ids of views/report/report.py's trace_blocks.
 * @param {string} prefix
 * @param {Store} store
 */
export async function openGiven(prefix, store) {
  const panels = jsonOf(`${prefix}panels`),
    {given, columns} = await unpackGiven(jsonOf(`${prefix}given`), panels);
  /** @type {Settings} */
  const settings = jsonOf(`${prefix}settings`);
  for (const tab of settings.tabs) tab.missing = given.panels.tabs[tab.name]?.missing ?? '';
  /** @type {DocumentJson} */
  const figures = jsonOf(`${prefix}document`);
  return {document: figures, settings, transport: createLocal(columns, given, store, fileAnswers(given))};
}
