// Where the wheel and the keys that move belong: to the timeline after a click or a focus in it, else to the notebook.

/**
 * Tell whether the last click or focus was in one of the figures; the root itself stands for them when it is reached by Tab.
 * Gives a function that ends it.
 * @param {HTMLElement} root
 * @param {HTMLElement[]} figures
 * @param {(inside: boolean) => void} tell
 */
export function watchFocus(root, figures, tell) {
  let pointed = false;
  const within = (/** @type {Event} */ event) => {
    const path = event.composedPath();
    return figures.some((figure) => path.includes(figure));
  };
  const down = (/** @type {Event} */ event) => {
    pointed = true; // a focus that comes of it says nothing: the root takes that of every click on its texts
    setTimeout(() => {
      pointed = false;
    });
    tell(within(event));
  };
  const focused = (/** @type {Event} */ event) => {
    if (!pointed) tell(event.target === root || within(event));
  };
  root.addEventListener('pointerdown', down, true);
  root.addEventListener('focusin', focused);
  return () => {
    root.removeEventListener('pointerdown', down, true);
    root.removeEventListener('focusin', focused);
  };
}
