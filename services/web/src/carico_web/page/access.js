// The bus address for this page, and its identity there.

export function address(settings) {
  return settings.bus || `${location.protocol === "https:" ? "wss:" : "ws:"}//${location.host}/bus`;
}

// The identity for CONNECT: our server signs the bus' nonce or returns a token; empty if the bus needs none.
export async function identify(settings, nonce) {
  if (!settings.identity) return {};
  const answer = await fetch("/identity", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ nonce }) });
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
}
