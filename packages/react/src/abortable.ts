// Iteration that ends at once when a signal says so, whatever the source is waiting for.

const ABORTED = Symbol("aborted");

/** Yield what the source gives until the signal; the source is then told to return, and not waited for. */
export async function* abortable<T>(
  source: AsyncIterable<T> | Iterable<T>,
  signal: AbortSignal,
): AsyncGenerator<T, void, undefined> {
  const iterator: AsyncIterator<T> | Iterator<T> =
    Symbol.asyncIterator in source ? source[Symbol.asyncIterator]() : source[Symbol.iterator]();
  let wake: () => void = () => undefined;
  const onAbort = (): void => wake();
  signal.addEventListener("abort", onAbort);
  let isOver = false;
  try {
    while (!signal.aborted) {
      // One promise for each step: a race against a promise that lives as long as the turn would keep every step.
      const step = await new Promise<IteratorResult<T> | typeof ABORTED>((resolve, reject) => {
        wake = () => resolve(ABORTED);
        Promise.resolve(iterator.next()).then(resolve, reject);
      });
      if (step === ABORTED) return;
      if (step.done) {
        isOver = true;
        return;
      }
      yield step.value;
    }
  } catch (error) {
    isOver = true;
    throw error;
  } finally {
    signal.removeEventListener("abort", onAbort);
    if (!isOver) void closed(iterator);
  }
}

async function closed<T>(iterator: AsyncIterator<T> | Iterator<T>): Promise<void> {
  try {
    await iterator.return?.();
  } catch {
    // Nobody waits for it any more: the turn has been let go of.
  }
}

/** Wait, or less long where the signal says so. */
export function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, milliseconds);
    signal.addEventListener("abort", end);
  });
}
