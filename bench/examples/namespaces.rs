//! Measures the memory, watches and CPU time of one informer of 200 namespaces, and compares them
//! with those of 200 informers of one namespace each.
//!
//! ```text
//! cargo run --release -p deltafifo-bench --features peers --example namespaces
//! ```
//!
//! Each turn is a process of its own, with the test kit's API server in it. Memory and CPU time
//! are those of the whole process, minus those before the informers started. So both forms include
//! the work of the server.

use std::env;
use std::error::Error;
use std::process::Command;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use deltafifo_bench::process;
use deltafifo_informer::shared_informer::{Namespaces, SharedInformerBuilder};
use deltafifo_informer::{KubeListerWatcher, SharedInformer};
use deltafifo_testkit::{ApiServer, Resource};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::time::sleep;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Compare one informer of many namespaces with an informer for each namespace.
#[derive(Parser)]
struct Args {
    /// The number of config maps
    #[arg(long, default_value_t = 100_000)]
    objects: usize,
    /// The number of namespaces that the config maps are in
    #[arg(long, default_value_t = 200)]
    namespaces: usize,
    /// How often each of the two forms (one informer, or one for each namespace) is measured
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// The number of updates after which the writer of the config maps waits until the informers
    /// have received them; by default it waits only after the last update
    #[arg(long, default_value_t = usize::MAX)]
    pace: usize,
    /// Measure only this form, in this process; the program starts a process with this option for
    /// each measurement
    #[arg(long, hide = true)]
    form: Option<Form>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// One informer of all namespaces
    One,
    /// An informer for each namespace
    Each,
}

type Informer = SharedInformer<ConfigMap>;

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    if let Some(form) = args.form {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build()?;
        return runtime.block_on(measure(form, &args));
    }
    println!("informers  memory     watches  first lists         updates");
    for round in 0..args.rounds {
        let mut forms = ["one", "each"];
        if round % 2 == 1 {
            forms.reverse();
        }
        for form in forms {
            let (objects, namespaces) = (args.objects.to_string(), args.namespaces.to_string());
            let ended = Command::new(env::current_exe()?)
                .args([
                    "--form",
                    form,
                    "--objects",
                    &objects,
                    "--namespaces",
                    &namespaces,
                    "--pace",
                    &args.pace.to_string(),
                ])
                // mimalloc returns free pages at once, so that resident memory is memory in use.
                .env("MIMALLOC_PURGE_DELAY", "0")
                .status()?;
            if !ended.success() {
                return Err(format!("{form}: {ended}").into());
            }
        }
    }
    Ok(())
}

async fn measure(form: Form, args: &Args) -> Result<(), Box<dyn Error>> {
    let names: Vec<_> = (0..args.namespaces).map(|number| format!("shop-{number}")).collect();
    let server = ApiServer::builder().resource(Resource::config_maps()).build();
    for number in 0..args.objects {
        write(&server, &names, number, "1")?;
    }
    let (memory, cpu, began) = (process::anonymous(), process::cpu()?, Instant::now());
    let all = KubeListerWatcher::new::<ConfigMap>(server.client(), &(), None);
    let informers = match form {
        Form::One => {
            let namespaces = Namespaces::new(&names)?;
            let source = move |namespace: &str| all.in_namespace(namespace);
            vec![Informer::in_namespaces(&namespaces, source).build()?]
        }
        Form::Each => {
            let informers = names.iter().map(|name| Informer::builder(all.in_namespace(name)));
            informers.map(SharedInformerBuilder::build).collect::<Result<Vec<_>, _>>()?
        }
    };
    for informer in &informers {
        let informer = informer.clone();
        tokio::spawn(async move { informer.run().await });
    }
    for informer in &informers {
        informer.wait_for_sync().await?;
    }
    let listed = (began.elapsed(), process::cpu()?.saturating_sub(cpu));
    // Watches open after the lists.
    while server.watchers() < args.namespaces {
        sleep(Duration::from_millis(10)).await;
    }
    let (watches, tasks) = (server.watchers(), Handle::current().metrics().num_alive_tasks());
    let memory = process::anonymous().saturating_sub(memory) >> 20;

    let (cpu, began) = (process::cpu()?, Instant::now());
    let has = |number: usize| {
        let key = format!("{}/map-{number}", names[number % names.len()]);
        let map = informers[number % informers.len()].store().get_by_key(&key);
        map.is_some_and(|map| map.data.as_ref().is_some_and(|data| data["data"] == "2"))
    };
    for number in 0..args.objects {
        write(&server, &names, number, "2")?;
        if number % 64 == 0 {
            tokio::task::yield_now().await;
        }
        // The last objects, one in each namespace that has any.
        if (number + 1) % args.pace == 0 || number + 1 == args.objects {
            for number in (number + 1).saturating_sub(args.namespaces)..=number {
                while !has(number) {
                    sleep(Duration::from_millis(1)).await;
                }
            }
        }
    }
    let updated = (began.elapsed(), process::cpu()?.saturating_sub(cpu));
    let shown = |(wall, cpu): (Duration, Duration)| {
        format!("{:.2} s, {:.2} s CPU", wall.as_secs_f64(), cpu.as_secs_f64())
    };
    println!(
        "{:<9}  {memory:>5} MiB  {watches:>7}  {}  {}  ({tasks} tasks)",
        informers.len(),
        shown(listed),
        shown(updated)
    );
    Ok(())
}

fn write(
    server: &ApiServer,
    names: &[String],
    number: usize,
    data: &str,
) -> Result<(), Box<dyn Error>> {
    server.apply(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "namespace": names[number % names.len()], "name": format!("map-{number}") },
        "data": { "data": data },
    }))?;
    Ok(())
}
