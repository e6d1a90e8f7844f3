// Figures are drawn for the width of the screen. On paper each is made smaller until it fits, so that nothing is cut off.

/**
 * Tell the print style sheet how wide each figure is drawn, whenever the page is printed.
 * @param {HTMLElement} root
 * @returns {() => void} takes that away
 */
export function fitOnPaper(root) {
  const measure = () => {
    const figures = /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll('.nbp-figure, .nbp-account, .nbp-rank-figure'));
    for (const figure of figures) figure.style.setProperty('--nbp-drawn', `${figure.offsetWidth}px`);
  };
  window.addEventListener('beforeprint', measure);
  return () => window.removeEventListener('beforeprint', measure);
}
