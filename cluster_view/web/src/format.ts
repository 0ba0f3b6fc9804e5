/** Numbers as people read them. */

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const tenths = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const cents = new Intl.NumberFormat("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

export const UNKNOWN = "unknown";

export function count(value: number): string {
  return whole.format(value);
}

export function number(value: number): string {
  return Math.abs(value) >= 1000 ? whole.format(value) : short.format(value);
}

export function cores(value: number): string {
  return `${number(value)} ${value === 1 ? "core" : "cores"}`;
}

export function bytes(value: number): string {
  const mib = value / 2 ** 20;
  return mib >= 1024 ? `${number(mib / 1024)} GiB` : `${number(mib)} MiB`;
}

/** Sub-cent prices keep their digits. */
export function dollars(value: number): string {
  const size = Math.abs(value);
  return `${value < 0 ? "−" : ""}$${size >= 1 || size === 0 ? cents.format(size) : short.format(size)}`;
}

export function seconds(value: number): string {
  const size = Math.abs(value);
  if (size < 1) return `${number(value * 1000)} ms`;
  if (size < 120) return `${number(value)} s`;
  return size < 7200 ? `${number(value / 60)} min` : `${number(value / 3600)} h`;
}

/** While it grows: its digits stay where they are. */
export function elapsed(value: number): string {
  return value < 120 ? `${tenths.format(value)} s` : seconds(value);
}

export function timeOfDay(at: string): string {
  const time = new Date(at);
  return Number.isNaN(time.getTime()) ? UNKNOWN : clock.format(time);
}

export function secondsBetween(from: string, to: string): number {
  return Math.max(0, (Date.parse(to) - Date.parse(from)) / 1000);
}

export function plural(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}
