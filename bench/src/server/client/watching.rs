//! The interface of a running client, as the steps of the protocol use it.

use deltafifo::BoxError;

use super::cut::Cut;
use super::tally::HandlerCounts;

/// A running client.
pub(super) trait Watching {
    /// Waits until the handler was notified of all initial objects.
    async fn first_list(&self) -> Result<(), BoxError>;

    /// Ends the cut, and waits until the relist is complete and the handler was notified of this
    /// many changes.
    async fn relist(&self, cut: &Cut, changed: usize) -> Result<(), BoxError>;

    /// Returns the counts of the handler, and the number of objects in the store.
    fn counts(&self) -> (HandlerCounts, usize);
}
