// What a user has set stays for the page it was set on: the height of the timeline, whether memory is open.

/** @param {string} key */
const place = (key) => `notebook-prof ${key} ${location.pathname}`;

/**
 * What was set, or null; a sandboxed page has no memory.
 * @param {string} key
 */
export function recall(key) {
  try {
    return localStorage.getItem(place(key));
  } catch {
    return null;
  }
}

/**
 * @param {string} key
 * @param {string | number} value
 */
export function remember(key, value) {
  try {
    localStorage.setItem(place(key), String(value));
  } catch {
    // it holds for this view then
  }
}
