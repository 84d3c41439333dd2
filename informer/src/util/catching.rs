//! Futures of user code, whose panics must not affect the task that polls them.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};

use deltafifo::panics::ignore_panic;

/// Polls `future` to its end. A panic of the destructor of `future` is discarded, even if the
/// future that this function returns is dropped early.
///
/// # Errors
/// The payload of the panic, if `future` panicked.
pub(crate) async fn catching<F: Future>(future: F) -> Result<F::Output, Box<dyn Any + Send>> {
    let future = pin!(Some(future));
    let mut future = DroppedQuietly(future);
    poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| {
            let running = future.0.as_mut().as_pin_mut();
            running.expect("only the destructor below removes it").poll(context)
        }));
        polled.map_or_else(|panic| Err(panic).into(), |polled| polled.map(Ok))
    })
    .await
}

struct DroppedQuietly<'a, F>(Pin<&'a mut Option<F>>);

impl<F> Drop for DroppedQuietly<'_, F> {
    fn drop(&mut self) {
        ignore_panic(|| self.0.set(None));
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::panic::resume_unwind;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::FutureExt;

    use super::catching;

    /// A value that counts its drops, and panics in them.
    struct Bomb(Arc<AtomicUsize>);

    impl Drop for Bomb {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
            if !std::thread::panicking() {
                resume_unwind(Box::new("expected by this test"));
            }
        }
    }

    #[test]
    fn panics_of_a_future_and_of_its_destructor_are_contained() {
        let drops = Arc::new(AtomicUsize::new(0));
        let bomb = || Bomb(drops.clone());

        let ready = std::future::ready((bomb(), 1));
        std::mem::forget(catching(ready).now_or_never().unwrap().unwrap());
        assert!(catching(async { drop(bomb()) }).now_or_never().unwrap().is_err());
        assert_eq!(drops.load(Ordering::Relaxed), 1);
        // A future that keeps its fields after its end, and one that never ends.
        let (kept, unfinished) = (bomb(), bomb());
        let keeps = futures_util::future::poll_fn(move |_| {
            let _kept = &kept;
            std::task::Poll::Ready(())
        });
        assert!(catching(keeps).now_or_never().unwrap().is_ok());
        assert_eq!(drops.load(Ordering::Relaxed), 2);
        let never = async move {
            let _unfinished = unfinished;
            pending::<()>().await;
        };
        assert!(catching(never).now_or_never().is_none());
        assert_eq!(drops.load(Ordering::Relaxed), 3);
    }
}
