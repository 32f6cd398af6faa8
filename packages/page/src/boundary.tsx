// Owns what is left of a page when a part of it cannot be drawn: all the other parts.

import { Component, type ReactNode } from "react";

interface Props {
  /** What is drawn. Another value is another try. */
  readonly value?: unknown;
  readonly instead: ReactNode;
  readonly children: ReactNode;
}

// React knows such borders as classes only.
export class Boundary extends Component<Props, { readonly isBroken: boolean }> {
  override state = { isBroken: false };

  static getDerivedStateFromError(): { readonly isBroken: boolean } {
    return { isBroken: true };
  }

  override componentDidUpdate(before: Props): void {
    if (this.state.isBroken && before.value !== this.props.value) this.setState({ isBroken: false });
  }

  override render(): ReactNode {
    return this.state.isBroken ? this.props.instead : this.props.children;
  }
}
