// The stacked timelines that lie in a report of ranks: opened once, with the ranks that were not asked for hidden.
function createLocalTimelines({ranks: inside, note}, unpack) {
  let opening = null,
    transport = null,
    number = 0,
    hidden = [];
  async function open({ranks}) {
    const shown = ranks.filter((rank) => inside.includes(rank));
    if (!shown.length) return {failed: `rank ${formatNumbers(ranks)}: ${note}`, columns: []};
    const opened = await (opening ??= unpack());
    transport = opened.transport;
    hidden = inside.filter((rank) => !shown.includes(rank));
    const left = ranks.filter((rank) => !inside.includes(rank)),
      missing = left.length ? `Rank ${formatNumbers(left)}: ${note}` : '';
    const notice = [missing, opened.settings.notice].filter(Boolean).join(' ');
    return {of: ++number, ranks: shown, document: JSON.stringify(opened.document), settings: {...opened.settings, notice}, select: hidden.length ? shown : null, columns: []};
  }
  return {
    open,
    async ask(message) {
      if (message.of !== number) return reply({failed: 'this timeline has been replaced by another one'});
      const answer = await transport.request(message);
      return message.t === 'meta' ? {...answer, content: {...answer.content, hidden}} : answer;
    },
  };
}
