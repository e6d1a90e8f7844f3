// The page of a comparison in a file: both recordings lie in it, compressed, and what differs.
import {mountComparison} from '../compare/mount.js';
import {fromFile} from '../compare/sources.js';
import {createFileStore, startReport} from '../report/file/start.js';
import {jsonOf, openGiven} from '../report/file/unpack.js';
import {packedAnswer} from '../report/tabs.js';

startReport(async (el) => {
  const store = createFileStore(),
    settings = jsonOf('nbp-settings'),
    compared = async () => {
      const {content, columns} = await packedAnswer(jsonOf('nbp-compared'));
      return {...content, data: columns};
    };
  await mountComparison({
    Bokeh: window.Bokeh,
    el,
    document: jsonOf('nbp-document'),
    settings,
    transport: {request: () => Promise.reject(new Error('the sides answer'))},
    store,
    source: fromFile(store, settings, openGiven, compared),
  });
});
