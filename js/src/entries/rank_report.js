// The ranks' report: sums of all ranks lie in the file, compressed, and the timelines of some of them.
import {createLocalRanks} from '../ranks/answers.js';
import {mountRanks} from '../ranks/page.js';
import {createLocalTimelines} from '../ranks/timelines.js';
import {inflateJson} from '../report/file/inflate.js';
import {createFileStore, startReport} from '../report/file/start.js';
import {jsonOf, openGiven} from '../report/file/unpack.js';

startReport(async (el) => {
  const given = await inflateJson(jsonOf('nbp-given')),
    settings = jsonOf('nbp-settings'),
    store = createFileStore(),
    timelines = createLocalTimelines(settings.timelines, () => openGiven('nbp-timelines-', store));
  await mountRanks({
    Bokeh: window.Bokeh,
    el,
    document: jsonOf('nbp-document'),
    settings,
    transport: createLocalRanks(given, store, timelines),
    store,
  });
});
