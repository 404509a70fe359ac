// Where the bus is for this page, and who the page is there.

export function address(settings) {
  return settings.bus || `${location.protocol === "https:" ? "wss:" : "ws:"}//${location.host}/bus`;
}

// What CONNECT says of who we are: our server signs the bus' nonce, or gives a token; nothing where nothing is asked.
export async function identify(settings, nonce) {
  if (!settings.identity) return {};
  const answer = await fetch("/identity", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ nonce }) });
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
}
