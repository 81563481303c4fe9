use std::fmt::Debug;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::{Request, Script, Step};

/// A running server. A drop closes its port and its connections.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    records: Arc<Records>,
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Records {
    connections: AtomicUsize,
    ended: AtomicUsize,
    requests: Mutex<Vec<Request>>,
}

impl Server {
    pub fn start(script: impl Script) -> Self {
        Self::bound("127.0.0.1:0", script)
    }

    /// Starts a server on an IPv4 or IPv6 address; port 0 selects a free port.
    ///
    /// # Panics
    ///
    /// If the address is not available.
    pub fn bound(address: impl ToSocketAddrs + Debug, script: impl Script) -> Self {
        match Self::try_bound(&address, script) {
            Ok(server) => server,
            Err(error) => panic!("failed to start a server on {address:?}: {error}"),
        }
    }

    fn try_bound(address: &impl ToSocketAddrs, script: impl Script) -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let listener = {
            let _context = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let (records, stop) = (Arc::<Records>::default(), Arc::<Notify>::default());
        let (shared, stopped) = (records.clone(), stop.clone());
        let serve = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = stopped.notified() => {}
                    () = accept(listener, Arc::new(script), shared) => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name("scripted-http".to_owned()).spawn(serve)?;
        Ok(Self { address, records, stop, thread: Some(thread) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The requests so far; each is recorded before its first step.
    pub fn requests(&self) -> Vec<Request> {
        self.records.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn connections(&self) -> usize {
        self.records.connections.load(Ordering::SeqCst)
    }

    /// Number of connections that either side has ended.
    pub fn ended_connections(&self) -> usize {
        self.records.ended.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.notify_one();
        // The end of the thread closes the port. A panic of the thread has printed its message.
        if let Some(thread) = self.thread.take() {
            let (Ok(()) | Err(_)) = thread.join();
        }
    }
}

async fn accept(listener: TcpListener, script: Arc<impl Script>, records: Arc<Records>) {
    let mut connections = JoinSet::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => panic!("failed to accept a connection: {error}"),
        };
        records.connections.fetch_add(1, Ordering::SeqCst);
        let (script, records) = (script.clone(), records.clone());
        connections.spawn(async move {
            // The client may disconnect at any moment.
            let (Ok(()) | Err(_)) = serve(stream, &*script, &records).await;
            records.ended.fetch_add(1, Ordering::SeqCst);
        });
    }
}

async fn serve(stream: TcpStream, script: &impl Script, records: &Records) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let request = Request::read(&mut stream).await?;
        records.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
        let mut is_last = true;
        for step in script.steps(&request) {
            match step {
                Step::Send(bytes) => stream.write_all(&bytes).await?,
                Step::Flood(bytes) => loop {
                    stream.write_all(&bytes).await?;
                },
                Step::Drip(bytes, pause) => loop {
                    stream.write_all(&bytes).await?;
                    tokio::time::sleep(pause).await;
                },
                Step::Hang => while stream.read(&mut [0; 1024]).await? > 0 {},
                Step::Reset => return stream.get_ref().set_zero_linger(),
                Step::Next => is_last = false,
            }
        }
        if is_last {
            return stream.shutdown().await;
        }
    }
}
