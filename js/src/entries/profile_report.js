// The report: columns lie in the file, compressed; questions are answered in the page.
import {mount} from '../page/mount.js';
import {createFileStore, startReport} from '../report/file/start.js';
import {openGiven} from '../report/file/unpack.js';

startReport(async (el) => {
  const store = createFileStore();
  await mount({Bokeh: window.Bokeh, el, store, ...(await openGiven('nbp-', store))});
});
