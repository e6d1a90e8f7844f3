// Boxes that scroll inside of a notebook, and what scrolls around them.
const LINE_PX = 16;

/**
 * Let a box scroll by the wheel only when the keyboard is in it; otherwise the wheel scrolls what lies around the views.
 * @param {HTMLElement} box
 * @param {() => boolean} hasFocus
 */
export function scrollWithFocus(box, hasFocus) {
  box.addEventListener(
    'wheel',
    (event) => {
      if (event.ctrlKey || event.deltaY === 0 || hasFocus()) return;
      const around = scrollerOf(box);
      if (!around) return;
      event.preventDefault();
      around.scrollBy({top: event.deltaY * (event.deltaMode === 1 ? LINE_PX : 1)});
    },
    {passive: false},
  );
}

/**
 * The nearest box around an element that can be scrolled, also outside of a shadow root.
 * @param {HTMLElement} box
 * @returns {Element | null}
 */
export function scrollerOf(box) {
  for (let at = outwards(box); at; at = outwards(at))
    if (at.scrollHeight > at.clientHeight + 1 && /auto|scroll/.test(getComputedStyle(at).overflowY)) return at;
  return document.scrollingElement;
}

/** @param {Element} at */
function outwards(at) {
  const root = at.getRootNode();
  return at.parentElement ?? (root instanceof ShadowRoot ? root.host : null);
}
