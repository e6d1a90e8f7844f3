// Where the page of a comparison gets its answers: from a kernel, or from the file that it lies in.
import {unpack} from '../shared/packing.js';
import {patiently} from '../widget/line.js';
import {SIDES} from './side_store.js';

const AGAIN_MS = 200;

/**
 * A kernel answers.
 * @param {Transport} transport
 * @param {Store} store
 * @returns {ComparisonSource}
 */
export function fromKernel(transport, store) {
  /** @param {RawAnswer} answer */
  const checked = (answer) => {
    if (answer.content.failed) throw new Error(answer.content.failed);
    return answer;
  };
  /** @param {string} t */
  async function asked(t) {
    for (;;) {
      const reply = await patiently(transport.request({t}));
      if (reply) return reply; // a message can be lost: then the question is asked again
    }
  }
  return {
    side: async (side, _, run) => ({...transport, request: (message) => transport.request({...message, of: side, run})}),
    own: async (of, patch, origin) => /** @type {{state?: SelectionState}} */ ((await transport.request({t: 'own', of, patch, origin})).content),
    align: (a, b) =>
      void transport.request({t: 'align', a, b}).then(({content}) => {
        if (content.state) store.adopt(/** @type {SelectionState} */ (content.state), 'align');
      }),
    async shown() {
      const {document, settings} = checked(await asked('shown')).content;
      return {document: JSON.parse(/** @type {string} */ (document)), settings: /** @type {ComparisonSettings} */ (settings)};
    },
    async compared() {
      for (;;) {
        const answer = checked(await asked('compared'));
        if (!answer.content.pending) return /** @type {ComparedAnswer} */ (/** @type {unknown} */ ({...answer.content, data: unpack(answer)}));
        await new Promise((done) => setTimeout(done, AGAIN_MS));
      }
    },
  };
}

/**
 * The file answers.
 * @param {Store} store
 * @param {ComparisonSettings} settings
 * @param {(prefix: string, store: Store) => Promise<{transport: Transport}>} open
 * @param {() => Promise<ComparedAnswer>} compared
 * @returns {ComparisonSource}
 */
export function fromFile(store, settings, open, compared) {
  return {
    side: async (side, own) => (await open(`nbp-${side}-`, own)).transport,
    own: async () => null, // nobody else has it
    align(a, b) {
      const chosen = [a, b],
        starts = SIDES.map((side, i) => settings.steps[side].find(([step]) => step === chosen[i])?.[1] ?? 0);
      store.adopt(/** @type {SelectionState} */ ({...store.get(), starts}), 'align');
    },
    compared,
  };
}
