//! `rex serve`: a retrieval server over an index.

use crate::args::Output;
use crate::device;
use crate::server::{Limits, router};
use anyhow::{Context, Result};
use axum::serve::ListenerExt;
use rex_rollout::retrieval::Bm25Index;
use rex_trainer::retrieval::{self, Method};
use serde_json::json;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;

#[derive(Debug, clap::Args)]
pub struct ServeArgs {
    /// Folder of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// How: bm25, dense or hybrid; the latter two need an index built with --encoder
    #[arg(long, default_value = "bm25")]
    method: Method,
    /// Device that an encoder runs on
    #[arg(long, default_value = "cpu")]
    device: String,
    /// Address to listen on; whoever reaches it may search (0.0.0.0: everybody on the network)
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    host: IpAddr,
    /// Port; 0 takes a free one
    #[arg(long, default_value_t = 8000)]
    port: u16,
    #[command(flatten)]
    limits: Limits,
}

pub fn run(args: ServeArgs, output: Output) -> Result<()> {
    let index = Arc::new(Bm25Index::open(&args.index)?);
    let passages = index.len();
    let retriever = retrieval::local(index, &args.index, args.method, &device::open(&args.device)?)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let address = SocketAddr::new(args.host, args.port);
        let listener =
            TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
        let url = format!("http://{}/retrieve", listener.local_addr()?);
        let mut out = std::io::stdout();
        if output.json {
            writeln!(out, "{}", json!({ "url": url, "passages": passages }))?;
        } else if !output.quiet {
            writeln!(out, "serving {passages} passages on {url}; stop with Ctrl-C")?;
        }
        serve(listener, router(retriever, args.limits)).await
    })?;
    // Not waiting for searches that nobody waits for any more.
    runtime.shutdown_background();
    Ok(())
}

/// Serves until Ctrl-C or SIGTERM; then takes no new request, and waits for those under way, but not for long.
async fn serve(listener: TcpListener, router: axum::Router) -> Result<()> {
    const FAREWELL: Duration = Duration::from_secs(10);
    let (stop, mut stopping) = watch::channel(false);
    tokio::spawn(async move {
        asked_to_stop().await;
        eprintln!("stopping when the requests under way are answered; press Ctrl-C again to leave at once");
        let _ = stop.send(true);
        asked_to_stop().await;
        std::process::exit(130);
    });
    let listener = listener.tap_io(|stream| {
        // Answers leave when they are written; where that fails they leave a little later.
        let _ = stream.set_nodelay(true);
    });
    let mut asked = stopping.clone();
    let server = axum::serve(listener, router).with_graceful_shutdown(async move {
        let _ = asked.wait_for(|stop| *stop).await;
    });
    let overdue = async {
        let _ = stopping.wait_for(|stop| *stop).await;
        tokio::time::sleep(FAREWELL).await;
    };
    tokio::select! {
        served = async { server.await } => Ok(served?),
        () = overdue => Ok(()),
    }
}

async fn asked_to_stop() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminated) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminated.recv() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}
