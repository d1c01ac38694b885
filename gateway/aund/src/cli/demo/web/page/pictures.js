// Pictures that are attached to the next message.

import { ApiError, pictureUrl, request } from "./api.js";
import { element, icon } from "./dom.js";

export const MOST_PICTURES = 3;
const MOST_BYTES = 10 * 1024 * 1024;
const TYPES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

export class Pictures {
    // `changed` is told after each change, and of what cannot be attached.
    constructor(list, changed) {
        this.list = list;
        this.changed = changed;
        this.chosen = [];
    }

    add(files) {
        let problem = "";
        for (const file of files) {
            if (!TYPES.has(file.type)) problem = `${file.name} is not a PNG, JPEG, GIF or WebP picture.`;
            else if (file.size > MOST_BYTES) problem = `${file.name} is larger than 10 MB.`;
            else if (this.chosen.length >= MOST_PICTURES) problem = `A message can have at most ${MOST_PICTURES} pictures.`;
            else this.chosen.push({ file, url: URL.createObjectURL(file) });
        }
        this.show();
        this.changed(problem);
    }

    // Gives the pictures away, for a message that is sent now.
    take() {
        const taken = this.chosen;
        this.chosen = [];
        this.show();
        this.changed("");
        return taken;
    }

    // Those of a message that was not accepted.
    putBack(pictures) {
        this.chosen = pictures;
        this.show();
        this.changed("");
    }

    remove(picture) {
        URL.revokeObjectURL(picture.url);
        this.chosen = this.chosen.filter(other => other !== picture);
        this.show();
        this.changed("");
    }

    show() {
        this.list.replaceChildren(...this.chosen.map(picture => element("li", {},
            element("img", { src: picture.url, alt: picture.file.name }),
            element("button", {
                type: "button", "aria-label": `Remove ${picture.file.name}`, title: "Remove", onclick: () => this.remove(picture),
            }, icon("remove")))));
    }
}

// Sends a picture to the server, and gives the block of the message that names it.
export async function upload({ file }, threadId, signal) {
    const form = new FormData();
    form.append("file", file, file.name);
    form.append("threadId", threadId);
    const answer = await request("POST", "/attachments", { body: form, signal });
    const { url, mimeType } = await answer.json();
    if (typeof url !== "string") throw new ApiError(502, "the answer has no URL");
    return { type: "binary", mimeType, url, filename: file.name };
}

// Pictures below a message: those of this page by their own URL, those of the history by the server's.
export function shownPictures(urls) {
    const shown = urls.map(url => (url.startsWith("blob:") ? url : pictureUrl(url))).filter(url => url);
    if (shown.length === 0) return null;
    return element("div", { class: "sent-pictures" }, ...shown.map((url, index) => {
        const image = element("img", { src: url, alt: `Picture ${index + 1} of the message`, loading: "lazy" });
        const link = element("a", { href: url, target: "_blank", rel: "noopener noreferrer" }, image);
        image.addEventListener("error", () => {
            link.replaceWith(element("span", { class: "gone" }, "This picture cannot be loaded. Reload the page."));
        });
        return link;
    }));
}
