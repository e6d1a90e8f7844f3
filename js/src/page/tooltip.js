// One tooltip for all views. Text only: names come from strangers' files.
/** @param {HTMLElement} root */
export function createTooltip(root) {
  const box = document.createElement('div');
  box.className = 'nbp-tooltip';
  box.setAttribute('role', 'tooltip');
  box.hidden = true;
  root.appendChild(box);
  return {
    /**
     * @param {{clientX: number, clientY: number}} event
     * @param {(string | null | undefined)[]} lines
     */
    show(event, lines) {
      box.replaceChildren(
        ...lines.filter(Boolean).map((text, i) => {
          const line = document.createElement('div');
          line.className = i ? '' : 'nbp-tooltip-head';
          line.textContent = text ?? null;
          return line;
        }),
      );
      box.hidden = false;
      const frame = root.getBoundingClientRect(),
        width = box.offsetWidth,
        height = box.offsetHeight;
      const x = event.clientX - frame.left + 14,
        y = event.clientY - frame.top + 16;
      box.style.left = `${Math.max(4, Math.min(x, frame.width - width - 8))}px`;
      box.style.top = `${y + height > frame.height ? Math.max(4, y - height - 28) : y}px`;
    },
    hide() {
      box.hidden = true;
    },
  };
}
