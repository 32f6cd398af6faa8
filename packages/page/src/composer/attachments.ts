// Owns which files may go with a message, and their form: a `data:` address.

export interface Attachment {
  readonly url: string;
  readonly mediaType: string;
  readonly filename: string;
  readonly size: number;
}

// A server takes ten million bytes in a request by default, and a `data:` address is a third longer than its file.
export const MAX_FILE_BYTES = 4 * 1024 ** 2;
export const MAX_ALL_BYTES = 6 * 1024 ** 2;
export const ACCEPTED = "image/png,image/jpeg,image/gif,image/webp,application/pdf,text/*,.md,.csv,.json,.py,.ts,.toml,.yaml,.yml,.log";

const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
const TEXT_NAMES = /\.(md|txt|csv|tsv|json|py|ts|tsx|js|css|html|toml|ya?ml|log|rst|sql|sh|xml)$/i;

export interface FileLike {
  readonly name: string;
  readonly type: string;
  readonly size: number;
}

/** Return the media type to send a file as, undefined where the page does not take it. */
export function mediaTypeOf(file: FileLike): string | undefined {
  if (IMAGES.has(file.type) || file.type === "application/pdf") return file.type;
  if (file.type.startsWith("text/") || file.type === "application/json") return "text/plain";
  // A browser knows no type for many text files.
  return TEXT_NAMES.test(file.name) ? "text/plain" : undefined;
}

/** Return why a file cannot be attached, in words for a person; undefined where it can. */
export function refuse(file: FileLike, held: number): string | undefined {
  const megabytes = (size: number): string => `${size / 1024 ** 2} MB`;
  if (mediaTypeOf(file) === undefined) return `${file.name} is not attached: images (PNG, JPEG, GIF, WebP), PDF and text are taken.`;
  if (file.size === 0) return `${file.name} is not attached: it is empty.`;
  if (file.size > MAX_FILE_BYTES) return `${file.name} is not attached: a file may have ${megabytes(MAX_FILE_BYTES)}.`;
  if (held + file.size > MAX_ALL_BYTES) return `${file.name} is not attached: a message may carry ${megabytes(MAX_ALL_BYTES)}.`;
  return undefined;
}

export async function readFile(file: File): Promise<Attachment> {
  const mediaType = mediaTypeOf(file) ?? "application/octet-stream";
  // The browser's own guess is replaced, as the server decides by it how the model sees the file.
  const url = await dataUrl(new Blob([file], { type: mediaType }));
  return { url, mediaType, filename: file.name || "pasted image", size: file.size };
}

function dataUrl(blob: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error ?? new Error("The file could not be read."));
    reader.readAsDataURL(blob);
  });
}
